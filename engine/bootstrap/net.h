// The few socket calls that the rendezvous needs, with errors as values. All sockets are
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
// Can this machine reach its own addresses? An error when `address` is one of them and the loopback
// interface, which all traffic of a machine with itself takes, is down: no waiting helps then.
[[nodiscard]] Status check_loopback(const Address& address);
// One attempt. `unavailable` when nobody is there (yet): refused, unreachable, unresolved, silent.
[[nodiscard]] Result<Fd> connect_once(const Address& address, Deadline deadline);
// The next connection, set up like connect_once()'s; an invalid Fd when none is waiting.
[[nodiscard]] Result<Fd> accept_one(const Fd& listener);

// The number of the host at the other end, or "an unknown address".
[[nodiscard]] std::string peer_host(const Fd& socket);

enum class Flow : std::uint8_t {
  more,     // something moved, and there may be more
  blocked,  // nothing more moves now: poll
  ended,    // the other side closed in good order
};
// Appends what one call brings, at most 64 KiB, to `into`.
[[nodiscard]] Result<Flow> receive(const Fd& socket, std::string& into);
// Sends from the front of `from` and removes what was sent.
[[nodiscard]] Result<Flow> send(const Fd& socket, std::string& from);

// Waits until the socket is readable (or broken, which reading then tells); false at the deadline.
[[nodiscard]] Result<bool> wait_readable(const Fd& socket, Deadline deadline);

[[nodiscard]] Result<Fd> make_wake_fd();
void wake(const Fd& wake_fd);
void clear_wake(const Fd& wake_fd);

}  // namespace weft::net
