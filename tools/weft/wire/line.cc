// A message is its length, four bytes, and itself.
#include "tools/weft/wire/line.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace weft {
namespace {

// Longer than any; what claims more is not one of us.
constexpr std::uint32_t kMostMessage = 1 << 16;
constexpr int kNapMs = 100;

}  // namespace

Result<std::pair<Line, Line>> Line::make_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return system_error("socketpair", errno);
  return std::pair{Line(Fd(ends[0])), Line(Fd(ends[1]))};
}

void Line::fail(const Status& why) {
  // If it cannot be told, the other side sees that we went.
  (void)send('!', static_cast<char>(why.code()) + std::string(why.text()));
}

// Messages are shorter than what a socket holds, and each waits for an answer: sending never
// blocks for long.
Status Line::send(char kind, std::string_view message) {
  const auto length = static_cast<std::uint32_t>(message.size() + 1);
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  bytes += kind;
  bytes += message;
  const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(bytes.size()) ? Status() : gone();
}

// Who has ended may have said why; that lies here, unread.
Status Line::gone() {
  std::array<char, 4096> bytes;
  for (ssize_t got = 0; (got = receive(bytes)) > 0;)
    partial_.append(bytes.data(), static_cast<std::size_t>(got));
  for (;;) {
    WEFT_ASSIGN(const std::optional<std::string> message, take());
    if (!message) return Status(Code::peer_died, "the other side went away");
  }
}

ssize_t Line::receive(std::span<char> to) {
  return ::recv(fd_.get(), to.data(), to.size(), MSG_DONTWAIT);
}

Result<std::optional<std::string>> Line::take() {
  std::uint32_t length = 0;
  if (partial_.size() < sizeof length) return std::optional<std::string>();
  std::memcpy(&length, partial_.data(), sizeof length);
  if (length == 0 || length > kMostMessage) return foreign();
  if (partial_.size() < sizeof length + length) return std::optional<std::string>();
  const char kind = partial_[sizeof length];
  std::string message = partial_.substr(sizeof length + 1, length - 1);
  partial_.erase(0, sizeof length + length);
  if (kind == '=') return std::optional(std::move(message));
  const auto code = message.empty() ? Code::ok : static_cast<Code>(message[0]);
  if (kind != '!' || code == Code::ok || code > kLastCode) return foreign();
  return Status(code, "the other side: " + message.substr(1));
}

Result<std::string> Line::hear(std::string_view what, Deadline deadline, const Idle& idle) {
  for (;;) {
    WEFT_ASSIGN(std::optional<std::string> message, take());
    if (message) return std::move(*message);
    std::array<char, 4096> bytes;
    const ssize_t got = receive(bytes);
    if (got > 0) {
      partial_.append(bytes.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      return Status(Code::peer_died, "the other side went away");
    } else if (deadline.passed()) {
      return Status(
          Code::timed_out,
          fmt::format("the other side did not tell {} before the deadline (WEFT_DEADLINE_MS)",
                      what));
    } else {
      idle(fd_.get());
    }
  }
}

void Line::wait(int fd) {
  pollfd ready{fd, POLLIN, 0};
  ::poll(&ready, 1, kNapMs);
}

Status Line::foreign() {
  return Status(Code::mismatch, "the other side is no `weft perf wire` of this version");
}

}  // namespace weft
