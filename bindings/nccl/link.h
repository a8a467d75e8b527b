// link: one end of a connection: an interface of all rails, and the endpoint at the other end. It
// carries messages in one direction, from rank 0 to rank 1, and notices in the other.
//
// Threads: one at a time, as NCCL calls a connection. From the moment at which Turns watches the link,
// whoever uses it holds what enter() returns.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "bindings/nccl/network.h"
#include "verbs/base/base.h"

namespace weft::nccl {

inline constexpr Rank kSender = 0;
inline constexpr Rank kReceiver = 1;
// The channel of the receiver's notices.
inline constexpr std::uint32_t kRoomChannel = 1;

class Link {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Link>> open(const Network& network, Rank self,
                                                          std::uint32_t job);
  // Over what `opener` opens.
  using Opener = std::function<Result<std::unique_ptr<Interface>>(AddressResolver)>;
  [[nodiscard]] static Result<std::unique_ptr<Link>> open(Rank self, std::int64_t patience_ns,
                                                          const Opener& opener);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  [[nodiscard]] std::string address() const { return interface_->address(); }
  // `device` and `peer_device` are the rails that the two ends were asked to use. `socket` stays
  // open as long as the peer's process lives.
  [[nodiscard]] Status connect(const std::string& peer_address, int device, int peer_device);
  void keep(Fd socket) { socket_ = std::move(socket); }

  [[nodiscard]] Interface& interface() { return *interface_; }
  [[nodiscard]] Endpoint& peer() { return *peer_; }
  [[nodiscard]] std::int64_t patience_ns() const { return patience_ns_; }
  // Takes in what has arrived and ended.
  void progress();
  // ok, or why nothing more comes from the peer.
  [[nodiscard]] Status check();
  // The same from now on, and nothing more goes there.
  void fail(const Status& why);

  // For a call of NCCL's: the link is the caller's as long as it holds the lock.
  [[nodiscard]] std::unique_lock<std::mutex> enter();
  // For Turns: a turn, unless a call of NCCL's is at the link.
  enum class Rest : std::uint8_t {
    none,         // it is in use, or something waits to be sent
    until_event,  // wake_descriptor() becomes readable when another turn is due
    for_good,     // it has failed
  };
  [[nodiscard]] Rest rest();
  [[nodiscard]] Result<int> wake_descriptor() { return interface_->descriptor(); }

 private:
  Link(Rank self, std::int64_t patience_ns) : self_(self), patience_ns_(patience_ns) {}

  const Rank self_;
  const std::int64_t patience_ns_;
  std::string peer_address_;
  std::unique_ptr<Interface> interface_;
  Endpoint* peer_ = nullptr;
  Fd socket_;
  std::int64_t looked_ns_ = 0;  // when the socket was looked at last
  Status failure_;
  std::mutex mutex_;
  std::int64_t entered_ns_ = 0;  // NCCL's last call
  bool is_armed_ = false;        // the interface announces events by its descriptor
};

}  // namespace weft::nccl
