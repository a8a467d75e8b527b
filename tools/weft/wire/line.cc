// A message is its length, four bytes, and itself.
#include "tools/weft/wire/line.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace weft {
namespace {

// Longer than any; what claims more is not one of us.
constexpr std::uint32_t kMostMessage = 1 << 16;
constexpr int kRetryMs = 100;

// TCP without delay: a message is a question or its answer.
Fd prompt(Fd fd) {
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

using Found = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Found> look_up(const std::string& peer) {
  const std::size_t colon = peer.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == peer.size())
    return Status(Code::invalid_argument, fmt::format("--peer {}: expected HOST:PORT", peer));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(peer.substr(0, colon).c_str(), peer.substr(colon + 1).c_str(), &hints, &found);
  if (error != 0)
    return Status(Code::unavailable, fmt::format("--peer {}: {}", peer, ::gai_strerror(error)));
  return Found(found, &::freeaddrinfo);
}

// One try, bounded: a connect that does not block.
int try_connect(const Fd& fd, const addrinfo& to, Deadline deadline) {
  if (::connect(fd.get(), to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd ready{fd.get(), POLLOUT, 0};
  if (::poll(&ready, 1, deadline.left_ms()) <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

Result<std::pair<Line, Line>> Line::make_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return system_error("socketpair", errno);
  return std::pair{Line(Fd(ends[0])), Line(Fd(ends[1]))};
}

Result<Line> Line::listen_at(int port, Deadline deadline) {
  const Fd door(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(door.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::bind(door.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 ||
      ::listen(door.get(), 1) != 0)
    return system_error(fmt::format("--listen {}", port), errno);
  pollfd ready{door.get(), POLLIN, 0};
  if (::poll(&ready, 1, deadline.left_ms()) <= 0)
    return Status(Code::timed_out, fmt::format("--listen {}: nobody came", port));
  Fd came(::accept4(door.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!came.valid()) return system_error(fmt::format("--listen {}", port), errno);
  return Line(prompt(std::move(came)));
}

Result<Line> Line::connect_to(const std::string& peer, Deadline deadline) {
  WEFT_ASSIGN(const Found found, look_up(peer));
  for (int error = 0;;) {
    for (const addrinfo* to = found.get(); to != nullptr; to = to->ai_next) {
      Fd fd(::socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      error = try_connect(fd, *to, deadline);
      if (error == 0) return Line(prompt(std::move(fd)));
    }
    if (deadline.passed())
      return Status(Code::timed_out, fmt::format("--peer {}: {}", peer, errno_text(error)));
    ::poll(nullptr, 0, kRetryMs);
  }
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
  if (kind != '!' || code == Code::ok || code > Code::system) return foreign();
  return Status(code, "the other side: " + message.substr(1));
}

Result<std::string> Line::hear(Deadline deadline, const Idle& idle) {
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
      return Status(Code::timed_out, "the other side did not answer");
    } else {
      idle(fd_.get());
    }
  }
}

void Line::wait(int fd) {
  pollfd ready{fd, POLLIN, 0};
  ::poll(&ready, 1, kRetryMs);
}

Status Line::foreign() {
  return Status(Code::mismatch, "the other side is no `weft perf wire` of this version");
}

}  // namespace weft
