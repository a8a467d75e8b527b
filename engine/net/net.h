// net: the few socket calls that ranks need to find each other, with errors as values. All sockets are
// non-blocking and closed on exec. Free functions; thread safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "engine/config/config.h"
#include "verbs/base/base.h"

namespace weft::net {

// Listens on the first of the host's addresses that this machine has. Port 0 lets the kernel
// choose.
[[nodiscard]] Result<Fd> listen_on(const Address& address, int backlog);
// The port that a listening socket got.
[[nodiscard]] Result<std::uint16_t> port_of(const Fd& socket);
// An error if `address` is an address of this machine and the loopback interface is down. All
// traffic of a machine with itself takes that interface, so trying again would be in vain.
[[nodiscard]] Status check_loopback(const Address& address);
// One attempt to connect. `unavailable` if it may succeed later: the connection was refused, the
// host is unreachable or does not resolve, or nothing answered.
[[nodiscard]] Result<Fd> connect_once(const Address& address, Deadline deadline);
// The next connection, with the same socket options as that of connect_once(); an invalid Fd if
// none is waiting.
[[nodiscard]] Result<Fd> accept_one(const Fd& listener);

// The number of the host at the other end, or "an unknown address".
[[nodiscard]] std::string peer_host(const Fd& socket);

enum class Flow : std::uint8_t {
  more,     // bytes were moved, and there may be more
  blocked,  // nothing can be moved now: poll
  ended,    // the other side closed in good order
};
// Appends the bytes of one recv(), at most 64 KiB, to `into`.
[[nodiscard]] Result<Flow> receive(const Fd& socket, std::string& into);
// Sends from the front of `from` and removes what was sent.
[[nodiscard]] Result<Flow> send(const Fd& socket, std::string& from);

// Waits until the socket is readable, or broken, which the next read reports. Returns false at the
// deadline.
[[nodiscard]] Result<bool> wait_readable(const Fd& socket, Deadline deadline);

[[nodiscard]] Result<Fd> make_wake_fd();
void wake(const Fd& wake_fd);
void clear_wake(const Fd& wake_fd);

}  // namespace weft::net
