// transport: the contract that every transport keeps (shm here; ib and ucx follow it), so that
// engines above know only it. One conformance suite (tests/transport) runs over all of them.
//
// An Interface is one way out of this rank: a NIC port, or the host's shared memory. It gives its
// address as bytes; connect() to a peer's bytes makes an Endpoint and needs no answer from the
// peer. An endpoint carries `channels` independent, ordered streams of *notices* (64-byte header,
// optional payload) in each direction, each stream holding at most `slots` notices that the
// receiver has not released; where memory is shared, `payload_slots` of them with a payload.
//
//  - Posting answers `posted` or `full`; full is normal and clears when the peer releases.
//  - front() shows the oldest unreleased arrival of a channel; release() gives its slot back, and
//    the peer sees that in released(). Releasing also acknowledges what the notice pointed to (a
//    view, a process address): its owner may overwrite it. So every posted notice returns exactly
//    one credit, by the peer's release or, after a failure, by close().
//  - A transport whose peers cannot read our memory in place takes large payloads as pieces: it
//    reads them from the caller's memory while they travel, and settled() says when that is over.
//  - A path can fail (a cable, an interface, a peer's end): failure() says so, and nothing more
//    moves on that endpoint. A failed endpoint never blocks: posting answers full, and arrivals
//    that were whole stay readable. reconnect() makes another in its place.
//  - One-sided work (write, read, compare_swap) completes through poll(), good or flushed, exactly
//    once.
//  - Channel 0 is the control channel: a notice there makes the peer's attention() return this
//    endpoint even if the peer has never heard of us.
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
#include "verbs/transport/address.h"
#include "verbs/transport/header.h"

namespace weft {

enum class Posted : std::uint8_t { posted, full };

inline constexpr std::uint32_t kControlChannel = 0;
// What a control notice may carry; slots of the control channel hold at least this.
inline constexpr std::size_t kControlBytes = 512;
// The longest address of an interface.
inline constexpr std::size_t kAddressBytes = 1024;

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
  std::uint32_t channels = 9;  // control + operations in flight
  std::uint32_t slots = 4;     // unreleased notices per channel and direction; a power of two
  std::uint32_t payload_slots =
      0;  // so many of them with a payload, where memory is shared; 0: all
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
  // ok while this path works; then, for good, why it does not.
  [[nodiscard]] virtual const Status& failure() const = 0;
  // Ends this path from our side, for the reason given: failure() from now on, nothing of ours is
  // read or written by it any more, and who waits for the peer is told so by failure().
  virtual void abandon(const Status& why) = 0;
  // Whether what is posted can leave: before, it waits until the peer's end is known.
  [[nodiscard]] virtual bool connected() const { return true; }
  // Whether the peer reads our registered memory in place (PieceForm::view).
  [[nodiscard]] virtual bool shares_memory() const = 0;
  // Whether peer and we are bound to one and the same core: it cannot post before we yield. A hint.
  [[nodiscard]] virtual bool shares_core() const { return false; }

  // Notices. `header.stamp` is the transport's, and `header.bytes` is the payload's length where
  // `header.form` says that there is one. payload.size() <= payload_bytes (kControlBytes on channel
  // 0).
  virtual Posted post_notice(std::uint32_t channel, const WireHeader& header,
                             std::span<const std::byte> payload) = 0;
  // The same for a payload of up to Interface::piece_bytes() that the transport takes from where it
  // is: it must stay as it is until settled() counts this notice.
  virtual Posted post_piece(std::uint32_t channel, const WireHeader& header,
                            std::span<const std::byte> payload) = 0;
  // Pieces of this memory will follow: what lending it costs can be paid once for all of it. A
  // hint; what goes wrong is told by post_piece().
  virtual void expect_pieces(std::span<const std::byte>) {}
  // Pieces of a channel should take the rail of this number, modulo how many lead to the peer, until
  // told otherwise; rails are numbered by their names, so ranks count alike. A hint, which a rail
  // that fails or falls behind the others ends. kAnyRail: whichever is free.
  virtual void prefer_rail(std::uint32_t, int) {}
  // Where several interfaces were opened as one, and nothing else was asked for: the notices take
  // what leads from these of ours to those of the peer's, each numbered in the order of opening, as
  // long as all of it carries well; else, or where nothing does, all that leads there. A hint.
  virtual void use_members(std::span<const int>, std::span<const int>) {}
  [[nodiscard]] virtual Notice front(std::uint32_t channel) = 0;
  virtual void release(std::uint32_t channel) = 0;
  // How many notices of the peer's have come whole on the channel, released ones included.
  [[nodiscard]] virtual std::uint64_t arrived(std::uint32_t channel) = 0;
  // How many notices of ours were posted on the channel, and how many of those the peer has
  // released.
  [[nodiscard]] virtual std::uint64_t posted(std::uint32_t channel) const = 0;
  [[nodiscard]] virtual std::uint64_t released(std::uint32_t channel) = 0;
  // How many of the notices posted on the channel, oldest first, no longer need the memory that
  // they carry or point to. At least released().
  [[nodiscard]] virtual std::uint64_t settled(std::uint32_t channel) = 0;

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
  // ok, or why nothing gets through here now: no carrier, the device is gone. A look, not a wait.
  [[nodiscard]] virtual Status link() const { return {}; }
  // How notices travel to an endpoint of this interface, for people.
  [[nodiscard]] virtual std::string path_to(const Endpoint&) const { return std::string(name()); }
  // What a peer needs to connect here; opaque. At most kAddressBytes for each way out.
  [[nodiscard]] virtual std::string address() const = 0;
  // Connects to a peer, or returns the endpoint that exists to that address. The endpoint can post
  // at once. A rank that opened a new interface has a new address and so another endpoint; the old
  // one stays until this interface goes.
  virtual Result<Endpoint*> connect(Rank peer, std::string_view address) = 0;
  // The endpoint to that address if it works and something waits on its control channel, also of a
  // peer that we never connected to; else nullptr. Connects nothing.
  [[nodiscard]] virtual Endpoint* heard_from(Rank, std::string_view) { return nullptr; }
  // Whether this transport has the following.
  [[nodiscard]] virtual bool reconnects() const { return false; }
  // A new endpoint in place of one that failed, whose arrivals are given up. The peer's end is
  // made anew, too, when it hears of this. `unavailable` where the transport has no such thing.
  virtual Result<Endpoint*> reconnect(Rank peer, std::string_view) {
    return Status(Code::unavailable, std::string(name()) + " does not connect again", peer);
  }
  // The caller uses a failed endpoint no more; what is left of it may go, at the peer too where
  // nobody has taken its end. Its one-sided work is still told by poll().
  virtual void forget(Endpoint&) {}
  // How peers name [pointer, pointer+bytes): in place if it is registered for that, else by process
  // address.
  [[nodiscard]] virtual RemoteBuffer describe(const void* pointer, std::size_t bytes) const = 0;

  // The largest payload of post_piece(); at least InterfaceOptions::payload_bytes.
  [[nodiscard]] virtual std::size_t piece_bytes() const = 0;

  // Lets arrivals, releases and completions in: on a transport that needs it nothing of theirs
  // shows before. Cheap when there is nothing. False: since the last turn nothing came, left or
  // failed, so who has looked since need not look again.
  virtual bool progress() = 0;
  // Whether nothing of ours waits to go out. While it says no, somebody must call progress(): a
  // peer may be waiting for what is still here.
  [[nodiscard]] virtual bool flushed() const { return true; }
  // Ends of one-sided work, oldest first; how many were written.
  virtual std::size_t poll(std::span<Completion> completions) = 0;
  // An endpoint whose control channel has an arrival, or nullptr. Peers that were never connected
  // are connected through the resolver given at opening.
  virtual Result<Endpoint*> attention() = 0;

  // Sleeps until something arrives, something is released, wake() is called, or `timeout_ns`
  // passed. `ready` is asked once after peers can see that we sleep: true means do not.
  virtual void sleep(std::int64_t timeout_ns, const std::function<bool()>& ready) = 0;
  virtual void wake() = 0;
  // Sleeping on several interfaces at once: each is armed, then their descriptors are polled. Once
  // arm() said true, descriptor() becomes readable when something arrives, is released, or wake()
  // is called; what came before is looked for once more, by progress() and the endpoints, before
  // one sleeps. False: do not sleep for long, a wake-up could be missed. Every arm() is followed by
  // disarm().
  [[nodiscard]] virtual Result<int> descriptor() = 0;
  [[nodiscard]] virtual bool arm() = 0;
  virtual void disarm() = 0;

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
