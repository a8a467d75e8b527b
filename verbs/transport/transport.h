// transport: the contract that every transport keeps (shm here; ib and ucx follow it), so that
// engines above know only it. One conformance suite (tests/transport) runs over all of them.
//
// An Interface is one way out of this rank: a NIC port, or the host's shared memory. It gives its
// address as bytes; connect() to a peer's bytes makes an Endpoint and needs no answer from the
// peer. An endpoint carries `channels` independent, ordered streams of *notices* (64-byte header,
// optional payload) in each direction, each stream holding at most `slots` notices that the
// receiver has not released.
//
//  - Posting answers `posted` or `full`; full is normal and clears when the peer releases.
//  - front() shows the oldest unreleased arrival of a channel; release() gives its slot back, and
//  the peer sees
//    that in released(). Releasing also acknowledges what the notice pointed to (a view, a process
//    address): its owner may overwrite it. So every posted notice returns exactly one credit, by
//    the peer's release or, after a failure, by close().
//  - One-sided work (write, read, compare_swap) completes through poll(), good or flushed, exactly
//  once.
//  - Channel 0 is the control channel: a notice there makes the peer's attention() return this
//  endpoint even if the
//    peer has never heard of us.
//
// Threads: an Interface and its Endpoints belong to one lane: whoever holds the lane's token calls
// them. wake() alone may be called from anywhere. Lifetime: endpoints live as long as their
// interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "verbs/base/base.h"
#include "verbs/transport/header.h"

namespace weft {

enum class Posted : std::uint8_t { posted, full };

inline constexpr std::uint32_t kControlChannel = 0;
// What a control notice may carry; slots of the control channel hold at least this.
inline constexpr std::size_t kControlBytes = 512;

// An arrived notice, valid until it is released.
struct Notice {
  const WireHeader* header = nullptr;
  const std::byte* payload = nullptr;
};

// Memory as a peer names it on the wire: {form, word} of WireHeader.
struct RemoteBuffer {
  PieceForm form = PieceForm::view;  // view or process
  std::uint64_t word = 0;
  std::size_t bytes = 0;
};

// The end of one-sided work.
struct Completion {
  std::uint64_t ticket = 0;  // as posted
  Status status;             // closed: flushed by teardown
};

struct InterfaceOptions {
  std::uint32_t channels = 9;        // control + operations in flight
  std::uint32_t slots = 4;           // unreleased notices per channel and direction; a power of two
  std::size_t payload_bytes = 4032;  // largest payload of a notice
  std::uint32_t job = 0;
  std::uint16_t context = 0;
  std::uint64_t machine = 0;  // identity of the host: ranks of equal identity share memory
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;
  [[nodiscard]] virtual Rank peer() const = 0;
  // The peer closed its interface in good order: nothing more will come. From any thread.
  [[nodiscard]] virtual bool peer_closed() const = 0;

  // Notices. `header.stamp` is the transport's. payload.size() <= payload_bytes (kControlBytes on
  // channel 0).
  virtual Posted post_notice(std::uint32_t channel, const WireHeader& header,
                             std::span<const std::byte> payload) = 0;
  [[nodiscard]] virtual Notice front(std::uint32_t channel) = 0;
  virtual void release(std::uint32_t channel) = 0;
  // How many notices of ours were posted on the channel, and how many of those the peer has
  // released.
  [[nodiscard]] virtual std::uint64_t posted(std::uint32_t channel) const = 0;
  [[nodiscard]] virtual std::uint64_t released(std::uint32_t channel) = 0;

  // ok, or why this rank may not read the peer's private memory (PieceForm::process).
  [[nodiscard]] virtual const Status& process_access() const = 0;
  // The peer's memory readable in place, or nullptr where this transport (or that form) has no such
  // thing.
  [[nodiscard]] virtual const std::byte* view(const RemoteBuffer& remote) = 0;
  // Reads the peer's memory before it returns: for transports whose caller moves the bytes itself.
  // `unavailable` where a read needs the peer's or a device's time; post_read() is for those.
  virtual Status read_now(std::span<std::byte> local, const RemoteBuffer& remote) = 0;
  // One-sided work on the peer's memory. Out-of-range is a failed completion, never a fault.
  virtual Posted post_write(std::span<const std::byte> local, const RemoteBuffer& remote,
                            std::uint64_t ticket) = 0;
  virtual Posted post_read(std::span<std::byte> local, const RemoteBuffer& remote,
                           std::uint64_t ticket) = 0;
  // *remote (8 bytes, aligned) becomes `desired` if it is `expected`; `*found` gets what was there.
  virtual Posted post_compare_swap(const RemoteBuffer& remote, std::uint64_t expected,
                                   std::uint64_t desired, std::uint64_t* found,
                                   std::uint64_t ticket) = 0;
};

class Interface {
 public:
  virtual ~Interface() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // What a peer needs to connect here; opaque, at most 256 bytes.
  [[nodiscard]] virtual std::string address() const = 0;
  // Connects to a peer, or returns the endpoint that exists to that address. The endpoint can post
  // at once. A rank that opened a new interface has a new address and so another endpoint; the old
  // one stays until this interface goes.
  virtual Result<Endpoint*> connect(Rank peer, std::string_view address) = 0;
  // How peers name [pointer, pointer+bytes): in place if it is registered for that, else by process
  // address.
  [[nodiscard]] virtual RemoteBuffer describe(const void* pointer, std::size_t bytes) const = 0;

  // Ends of one-sided work, oldest first; how many were written.
  virtual std::size_t poll(std::span<Completion> completions) = 0;
  // An endpoint whose control channel has an arrival, or nullptr. Peers that were never connected
  // are connected through the resolver given at opening.
  virtual Result<Endpoint*> attention() = 0;

  // Sleeps until something arrives, something is released, wake() is called, or `timeout_ns`
  // passed. `ready` is asked once after peers can see that we sleep: true means do not.
  virtual void sleep(std::int64_t timeout_ns, const std::function<bool()>& ready) = 0;
  virtual void wake() = 0;

  // Tells the peers that nothing more will come; flushes one-sided work (each ticket completes with
  // `closed`), takes no more: work posted later is flushed too, notices answer full, and released()
  // counts every notice, as nobody will release them to us any more.
  virtual void close() = 0;
  // Bytes of rings and slots that this interface holds for its endpoints.
  [[nodiscard]] virtual std::size_t endpoint_bytes() const = 0;
};

// Finds a peer's address when a stranger asks for attention.
using AddressResolver = std::function<Result<std::string>(Rank)>;

}  // namespace weft
