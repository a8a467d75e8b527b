// The other side: one question, one answer of each, side by side.
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "engine/live/folder.h"

namespace weft {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;

Status too_late() {
  return Status(Code::timed_out, "does not answer");
}

// A rank whose process is stopped lets a few connect and answers nobody; then connecting is refused for now.
Result<Fd> connect_to(const LiveSocket& socket) {
  WEFT_ASSIGN(const sockaddr_un address, live::address_of(socket.path));
  Fd to(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!to.valid()) return system_error("a local socket", errno);
  if (::connect(to.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return to;
  if (errno == ECONNREFUSED || errno == ENOENT)
    return Status(Code::peer_died, "its process has ended");
  if (errno == EAGAIN) return too_late();
  return system_error("connecting", errno);
}

// A rank that is asked.
struct Asked {
  Fd socket;
  LiveAnswer answer;
  Status status;
  bool is_over = false;

  void end(Status why) {
    status = std::move(why);
    is_over = true;
    socket.reset();
  }
};

Status ask(const LiveSocket& socket, std::string_view question, Asked& asked) {
  WEFT_ASSIGN(asked.socket, connect_to(socket));
  if (!live::is_own_user(asked.socket, asked.answer.process))
    return Status(Code::no_permission, "it belongs to another user");
  const std::string line = fmt::format("{}{} {}\n", live::kGreeting, socket.job, question);
  if (::send(asked.socket.get(), line.data(), line.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(line.size()))
    return system_error("asking", errno);
  return {};
}

// What is there; at the end of the connection the answer is whole.
void read_some(Asked& asked) {
  std::array<char, 65536> bytes;
  std::string& text = asked.answer.text;
  for (;;) {
    const ssize_t got = ::recv(asked.socket.get(), bytes.data(), bytes.size(), 0);
    if (got == 0) return asked.end({});
    if (got > 0) text.append(bytes.data(), static_cast<std::size_t>(got));
    if (got < 0 && errno == EAGAIN) return;
    if (got < 0 && errno != EINTR) return asked.end(system_error("reading", errno));
    if (text.size() > kMostBytes)
      return asked.end(Status(Code::mismatch, "answers with more than a rank has to say"));
  }
}

Result<LiveAnswer> understood(Asked& asked) {
  if (!asked.is_over) return too_late();
  WEFT_RETURN_IF_ERROR(asked.status);
  std::string& text = asked.answer.text;
  if (text.starts_with("ok\n")) {
    text.erase(0, 3);
    return std::move(asked.answer);
  }
  if (!text.starts_with("error ") || !text.ends_with('\n'))
    return Status(Code::mismatch, "ended the connection without an answer");
  return Status(Code::mismatch, text.substr(6, text.size() - 7));
}

}  // namespace

std::vector<Result<LiveAnswer>> ask_live(std::span<const LiveSocket> sockets,
                                         std::string_view question, Deadline deadline) {
  std::vector<Asked> all(sockets.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (Status status = ask(sockets[i], question, all[i]); !status.ok())
      all[i].end(std::move(status));
  }
  while (!std::ranges::all_of(all, &Asked::is_over)) {
    std::vector<pollfd> ready;
    for (const Asked& asked : all) ready.push_back({asked.socket.get(), POLLIN, 0});
    const int count = ::poll(ready.data(), ready.size(), deadline.left_ms());
    if (count == 0 || (count < 0 && errno != EINTR)) break;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!all[i].is_over && ready[i].revents != 0) read_some(all[i]);
  }
  std::vector<Result<LiveAnswer>> answers;
  for (Asked& asked : all) answers.push_back(understood(asked));
  return answers;
}

Result<LiveAnswer> ask_live(const LiveSocket& socket, std::string_view question,
                            Deadline deadline) {
  return std::move(ask_live(std::span(&socket, 1), question, deadline).front());
}

}  // namespace weft
