// net: sockets.
#include "engine/net/net.h"

#include <fmt/format.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace weft::net {
namespace {

// If a host has several addresses and one of them does not answer, the next one is tried after this
// time.
constexpr std::int64_t kAttemptMs = 5'000;
constexpr std::size_t kReadBytes = 64 << 10;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Addresses> resolve(const Address& address, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (error != 0) {
    const std::string why = error == EAI_SYSTEM ? errno_text(errno) : ::gai_strerror(error);
    return Status(Code::unavailable,
                  fmt::format("host '{}' does not resolve: {}", address.host, why));
  }
  return Addresses(list, &::freeaddrinfo);
}

void set(const Fd& socket, int level, int option, int value) {
  // Errors are ignored, because no option is needed for correctness.
  (void)::setsockopt(socket.get(), level, option, &value, sizeof value);
}

// Small frames leave at once, and a machine that lost its power is noticed in about 15 s.
void tune(const Fd& socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 5);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 15'000);
}

Fd open_socket(const addrinfo& where) {
  return Fd(::socket(where.ai_family, where.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                     where.ai_protocol));
}

Status not_there(const Address& address, int error) {
  return Status(Code::unavailable, fmt::format("{}: {}", address.to_string(), errno_text(error)));
}

// A connect to a free port of one's own machine can connect to itself (TCP's simultaneous open). It
// happens while a rank tries to connect to a server that is not up yet, and would then occupy the
// server's port.
bool is_connected_to_itself(const Fd& socket) {
  sockaddr_storage here{};
  sockaddr_storage there{};
  socklen_t here_size = sizeof here;
  socklen_t there_size = sizeof there;
  return ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&here), &here_size) == 0 &&
         ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&there), &there_size) == 0 &&
         here_size == there_size && std::memcmp(&here, &there, here_size) == 0;
}

Result<bool> wait_for(const Fd& socket, short events, Deadline deadline) {
  for (;;) {
    pollfd one{socket.get(), events, 0};
    const int ready = ::poll(&one, 1, deadline.left_ms());
    if (ready > 0) return true;
    if (ready == 0 && deadline.passed()) return false;
    if (ready < 0 && errno != EINTR) return system_error("poll", errno);
  }
}

Result<Fd> connect_to(const addrinfo& where, const Address& address, Deadline deadline) {
  Fd socket = open_socket(where);
  if (!socket.valid()) return system_error("socket", errno);
  if (::connect(socket.get(), where.ai_addr, where.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return not_there(address, errno);
    WEFT_ASSIGN(const bool ready, wait_for(socket, POLLOUT, deadline));
    if (!ready) return not_there(address, ETIMEDOUT);
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return not_there(address, error);
  }
  if (is_connected_to_itself(socket)) return not_there(address, ECONNREFUSED);
  tune(socket);
  return socket;
}

bool loopback_is_down() {
  const Fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  return any.valid() && ::ioctl(any.get(), SIOCGIFFLAGS, &request) == 0 &&
         (request.ifr_flags & IFF_UP) == 0;
}

// Whether an address is one of this machine. The kernel binds a socket only to such addresses.
// 127.0.0.0/8 can always be bound. ::1 cannot be bound while the loopback interface is down, so it
// is compared.
bool is_of_this_machine(const addrinfo& where) {
  if (where.ai_family == AF_INET6) {
    const auto& ip = reinterpret_cast<const sockaddr_in6*>(where.ai_addr)->sin6_addr;
    if (IN6_IS_ADDR_LOOPBACK(&ip)) return true;
  }
  sockaddr_storage any_port{};
  std::memcpy(&any_port, where.ai_addr, where.ai_addrlen);
  (any_port.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(any_port).sin6_port
                                  : reinterpret_cast<sockaddr_in&>(any_port).sin_port) = 0;
  const Fd socket = open_socket(where);
  return socket.valid() &&
         ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any_port), where.ai_addrlen) == 0;
}

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK;
}

}  // namespace

Result<Fd> listen_on(const Address& address, int backlog) {
  WEFT_ASSIGN(const Addresses list, resolve(address, AI_PASSIVE));
  int error = 0;
  for (const addrinfo* where = list.get(); where != nullptr; where = where->ai_next) {
    Fd socket = open_socket(*where);
    if (socket.valid())
      set(socket, SOL_SOCKET, SO_REUSEADDR, 1);  // connections of the last job may be in TIME_WAIT
    if (socket.valid() && ::bind(socket.get(), where->ai_addr, where->ai_addrlen) == 0 &&
        ::listen(socket.get(), backlog) == 0) {
      return socket;
    }
    error = errno;
  }
  return system_error("listen on " + address.to_string(), error);
}

Result<std::uint16_t> port_of(const Fd& socket) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) {
    return system_error("getsockname", errno);
  }
  const in_port_t port = name.ss_family == AF_INET6
                             ? reinterpret_cast<sockaddr_in6*>(&name)->sin6_port
                             : reinterpret_cast<sockaddr_in*>(&name)->sin_port;
  return ntohs(port);
}

Status check_loopback(const Address& address) {
  if (!loopback_is_down()) return {};
  const Result<Addresses> list = resolve(address, 0);
  if (!list.ok()) return {};  // connect_once() will report that, and is tried again
  for (const addrinfo* where = list->get(); where != nullptr; where = where->ai_next) {
    if (!is_of_this_machine(*where)) return {};
  }
  return Status(Code::unavailable,
                "it is on this machine, whose loopback interface is down (ip link set lo up)");
}

Result<Fd> connect_once(const Address& address, Deadline deadline) {
  WEFT_ASSIGN(const Addresses list, resolve(address, 0));
  Status last = not_there(address, EADDRNOTAVAIL);
  for (const addrinfo* where = list.get(); where != nullptr; where = where->ai_next) {
    const auto attempt =
        Deadline::at_ns(std::min(deadline.ns(), Deadline::after_ms(kAttemptMs).ns()));
    Result<Fd> socket = connect_to(*where, address, attempt);
    if (socket.ok()) return socket;
    last = socket.status();
  }
  return last;
}

Result<Fd> accept_one(const Fd& listener) {
  for (;;) {
    Fd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      tune(socket);
      return socket;
    }
    if (would_block(errno)) return Fd();
    // A connection that broke while it waited in the queue is skipped.
    if (errno != EINTR && errno != ECONNABORTED) return system_error("accept", errno);
  }
}

std::string peer_host(const Fd& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  const bool is_known =
      ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host.data(), host.size(), nullptr,
                    0, NI_NUMERICHOST) == 0;
  return is_known ? host.data() : "an unknown address";
}

Result<Flow> receive(const Fd& socket, std::string& into) {
  std::array<char, kReadBytes> chunk;
  for (;;) {
    const ssize_t count = ::recv(socket.get(), chunk.data(), chunk.size(), 0);
    if (count > 0) {
      into.append(chunk.data(), static_cast<std::size_t>(count));
      return Flow::more;
    }
    if (count == 0) return Flow::ended;
    if (would_block(errno)) return Flow::blocked;
    if (errno != EINTR) return system_error("connection", errno);
  }
}

Result<Flow> send(const Fd& socket, std::string& from) {
  std::size_t sent = 0;
  int error = 0;
  while (sent < from.size() && error == 0) {
    const ssize_t count =
        ::send(socket.get(), from.data() + sent, from.size() - sent, MSG_NOSIGNAL);
    if (count >= 0) sent += static_cast<std::size_t>(count);
    if (count < 0 && errno != EINTR) error = errno;
  }
  from.erase(0, sent);  // only once, because the rest may be long
  if (error == 0) return Flow::more;
  if (would_block(error)) return Flow::blocked;
  return system_error("connection", error);
}

Result<bool> wait_readable(const Fd& socket, Deadline deadline) {
  return wait_for(socket, POLLIN, deadline);
}

Result<Fd> make_wake_fd() {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return system_error("eventfd", errno);
  return fd;
}

void wake(const Fd& wake_fd) {
  ::eventfd_write(wake_fd.get(), 1);
}

void clear_wake(const Fd& wake_fd) {
  eventfd_t count = 0;
  ::eventfd_read(wake_fd.get(), &count);
}

}  // namespace weft::net
