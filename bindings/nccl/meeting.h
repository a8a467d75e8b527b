// meeting: how the two ends of a connection find each other. NCCL carries the listener's handle to
// the caller. The caller connects to the listener by TCP, and both tell each other what their
// interfaces are:
//
//   caller     ──  Hello {cookie, device}, address           ──►  listener
//   caller     ◄──  Welcome {device}, address, board's key    ──  listener
//
// Nothing here waits for the other end: NCCL calls again. Whoever reaches the port may call, but only
// who knows the cookie is answered. Callers are heard side by side, each for a bounded time and with a
// bounded number of bytes, so that one that says nothing does not keep the others out. A caller that
// gets no answer gives up at its deadline (WEFT_DEADLINE_MS).
#pragma once

#include <array>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "bindings/nccl/abi.h"
#include "bindings/nccl/network.h"
#include "bindings/nccl/receiver.h"
#include "bindings/nccl/sender.h"

namespace weft::nccl {

class Caller;

// What NCCL carries from a listener to its caller. It keeps the bytes between two calls of connect.
struct Handle {
  static constexpr std::uint64_t kMagic = 0x3254454E54464557;  // "WEFTNET2"
  static constexpr std::size_t kMostAddresses = 2;

  std::uint64_t magic = kMagic;
  std::uint64_t cookie = 0;  // a secret of the two
  Caller* caller = nullptr;  // of the process that connects
  std::uint16_t count = 0;
  std::array<std::uint16_t, kMostAddresses> ports{};
  std::array<std::array<char, 46>, kMostAddresses> addresses{};  // as text, best first
};
static_assert(sizeof(Handle) <= abi::kHandleBytes);

class Listener {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Listener>> open(const Network& network, int device,
                                                              Handle& handle);
  // Null: nobody has called yet.
  [[nodiscard]] Result<std::unique_ptr<Receiver>> accept();

 private:
  // A caller that is heard.
  struct Guest {
    Fd socket;
    std::int64_t patience_ends_ns = 0;
    std::string heard = {}, to_say = {};
    bool is_known = false;  // it has shown the cookie
    std::unique_ptr<Receiver> receiver = {};
  };

  Listener(const Network& network, int device) : network_(network), device_(device) {}
  Status take_guests();
  bool send_one_away();
  Status hear(Guest& guest);
  Status answer(Guest& guest);
  void warn_once(const Status& why);

  const Network& network_;
  const int device_;
  std::uint64_t cookie_ = 0;
  std::vector<Fd> sockets_;  // one for each address of the handle
  std::list<Guest> guests_;  // oldest first
  bool has_warned_ = false;
};

class Caller {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Caller>> open(const Network& network, int device,
                                                            const Handle& handle);
  // Null: the listener has not answered yet. `timed_out`: nor by the deadline.
  [[nodiscard]] Result<std::unique_ptr<Sender>> advance();

 private:
  Caller(int device, std::int64_t patience_ns)
      : device_(device), patience_ends_ns_(now_ns() + patience_ns) {}

  const int device_;
  const std::int64_t patience_ends_ns_;
  Fd socket_;
  std::unique_ptr<Link> link_;
  std::string heard_, to_say_;
};

}  // namespace weft::nccl
