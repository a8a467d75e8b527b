// transport: the contract between Weft and a network. Shared memory (verbs/shm), RDMA verbs
// (verbs/ib) and UCX (verbs/ucx) keep it, and the engine above knows nothing else. The conformance
// suite in tests/transport is its exact meaning; `weft selftest` runs that suite on a user's own
// devices.
//
// An Interface is one way out of this rank: a NIC port, or the host's shared memory. It gives its
// address as bytes. connect() takes the bytes of a peer's interface and returns an Endpoint at
// once, without an answer from the peer.
//
// Notices. An endpoint has `channels` independent streams of notices in each direction. A notice is
// a 64-byte header and an optional payload. Each stream is ordered and holds at most `slots`
// notices that the receiver has not released (where memory is shared, `payload_slots` of them with
// a payload).
//
//  - A post answers `posted` or `full`. `full` is normal and ends when the peer releases.
//  - front() shows the oldest notice of a channel that was not released. release() gives its slot
//    back, and the sender sees that in released(). A release also says that what the notice pointed
//    to (a view, a process address) was read: its owner may overwrite it. So every notice that was
//    posted returns exactly one credit: by the peer's release or, after a failure, by close().
//  - Where peers cannot read our memory in place, large payloads travel as pieces: the transport
//    reads them from the caller's memory, and settled() tells when it no longer does.
//  - Channel 0 is the control channel. A notice there makes the peer's attention() return the
//    endpoint to us, even if the peer has never connected to us.
//
// One-sided work is a write, a read or a compare-and-swap on the peer's memory. Each ends with
// exactly one completion in poll(), good or failed; completions of one endpoint come in the order
// of posting.
//
//  - Order. The one-sided work of one endpoint takes effect in the order in which it was posted, of
//    whatever kind and size. A peer that sees a later write sees all earlier ones; a read returns
//    what the earlier writes left and nothing of the later ones. What a peer *sees* is 8 aligned
//    bytes that were written as one write and that it reads as one word with acquire order. For
//    example, data and then a word with its number is a publication: a peer that reads the number
//    has the data.
//  - Devices without order (Endpoint::keeps_order()). Some networks deliver out of order inside one
//    connection: adaptive routing, AWS's SRD. There, work takes effect in any order, and the
//    completion of a write says that the peer sees it. Whoever needs an order there posts work when
//    what stands before it has completed. Work behind a failed one may have been done.
//  - Failure. Work that fails (memory out of bounds, memory that could not be registered, an atomic
//    operation that the device lacks) ends what stands behind it: the work posted behind it is not
//    done, and each piece of it completes with an error of its own. This lasts until poll() has
//    returned the completion of the failed work. What is posted after that is done as usual, since
//    only then its poster can know. Work that failed may have been done in part.
//  - No order holds between one-sided work and notices, between channels, or between endpoints. To
//    announce a write by a notice, post the notice after the write has completed.
//
// A region is any memory of a rank, in Weft's heap or elsewhere, which the rank exposes to such
// work as a whole. Interface::expose() registers it once for each device and gives a key, which the
// owner tells its peers by means of its own. Endpoint::import_region() takes the key and gives a
// number; RemoteBuffer{PieceForm::region, offset, bytes, number} names a part of the region. Work
// that leaves its region is a failed completion, and nothing of it is sent. The owner keeps the
// memory until withdraw(), before which its peers should have ended their work on it. Work that
// comes later fails; over RDMA it ends the path, too, as the device knows only its own keys.
//
// Failure of a path (a cable, an interface, the peer's end): failure() says why, and nothing more
// moves on that endpoint. It never blocks: posting a notice answers full, one-sided work completes
// with the failure, and notices that had arrived whole stay readable. reconnect() makes an endpoint
// in its place.
//
// Threads: an Interface and its Endpoints belong to one lane; only the holder of the lane's token
// calls them. wake() alone may be called from any thread. Lifetime: endpoints live as long as their
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
#include "verbs/transport/one_sided.h"
#include "verbs/transport/regions.h"

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

// Whether the payload is in memory of another device, which no processor may touch: it came from such
// memory of the peer, and its address names it as expect_device_pieces() has it.
[[nodiscard]] inline bool is_in_device_memory(const Notice& notice) {
  return notice.header->form == PieceForm::payload &&
         (notice.header->flags & kFlagDeviceMemory) != 0;
}

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

// From when on a rail is preferred. `start`: where a plan divides edges among rails, so that none has two
// at once. `measured`: once all rails have been measured, where nothing but their rates speaks for it.
enum class PreferFrom : std::uint8_t { start, measured };

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
  // Pieces of this memory will follow: addresses of the heap that stand for memory of another device, and
  // that no processor may touch. ok: they may be posted. Else why this transport cannot send them.
  [[nodiscard]] virtual Status expect_device_pieces(std::span<const std::byte>) {
    return Status(Code::unavailable, "this transport sends host memory alone");
  }
  // Pieces of a channel should take the rail of this number, modulo how many lead to the peer,
  // until told otherwise; rails are numbered by their names, so ranks count alike. A hint, which a
  // rail that fails or falls behind the others ends. kAnyRail: whichever is free.
  virtual void prefer_rail(std::uint32_t, int, PreferFrom) {}
  // Where several interfaces were opened as one, and nothing else was asked for: the notices take
  // what leads from these of ours to those of the peer's, each numbered in the order of opening, as
  // long as all of it carries well; else, or where nothing does, all that leads there. A hint.
  virtual void use_members(std::span<const int>, std::span<const int>) {}
  [[nodiscard]] virtual Notice front(std::uint32_t channel) = 0;
  // Copies the payload of a notice of front(), or its beginning, wherever it is.
  virtual Status copy_payload(std::span<std::byte> to, const Notice& notice);
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
  // Whether the peer has said that it may read our private memory. Until its end is connected it has
  // said nothing.
  [[nodiscard]] virtual bool reads_private_memory() { return false; }
  // Whether the peer is in this process, so that it reads our private memory in place.
  [[nodiscard]] virtual bool shares_process() const { return false; }
  // The peer's memory readable in place, or nullptr where this transport (or that form) has no such
  // thing.
  [[nodiscard]] virtual const std::byte* view(const RemoteBuffer& remote) = 0;
  // Reads the peer's memory before it returns: for transports whose caller moves the bytes itself.
  // `unavailable` where a read needs the peer's or a device's time; post_read() is for those.
  virtual Status read_now(std::span<std::byte> local, const RemoteBuffer& remote) = 0;
  // One-sided work on the peer's memory, in the order that the top of this file promises. `full`:
  // too much work has no completion yet, or completions were not polled. Memory out of bounds is a
  // failed completion, never a fault. `local` and `found` stay as they are until the completion.
  virtual Posted post_write(std::span<const std::byte> local, const RemoteBuffer& remote,
                            std::uint64_t ticket) = 0;
  virtual Posted post_read(std::span<std::byte> local, const RemoteBuffer& remote,
                           std::uint64_t ticket) = 0;
  // *remote (8 bytes, aligned) becomes `desired` if it is `expected`; `*found` gets what was there.
  virtual Posted post_compare_swap(const RemoteBuffer& remote, std::uint64_t expected,
                                   std::uint64_t desired, std::uint64_t* found,
                                   std::uint64_t ticket) = 0;
  // Whether one-sided work takes effect in the order of posting; see the top of this file.
  [[nodiscard]] virtual bool keeps_order() const { return true; }
  // Whether one-sided work was posted here whose completion poll() has not returned yet.
  [[nodiscard]] virtual bool at_work() const { return false; }
  // How much of it there was here, and how much has ended, told by poll() or not.
  [[nodiscard]] virtual WorkCount work_count() const { return {}; }
  // Wakes the peer if it sleeps, where that needs no message: it may wait for what was written. A
  // hint; a peer that hears nothing looks from time to time.
  virtual void wake_peer() {}
  // Whether one-sided work waits until the peer's lane takes a turn.
  [[nodiscard]] virtual bool work_needs_peer() const { return false; }
  // Whether bytes of one-sided work that completed with a failure may still arrive at the peer: its
  // path failed with the work under way, and nobody has said that the peer's end is closed, too. A
  // transport that cannot know it says yes.
  [[nodiscard]] virtual bool work_may_linger() const { return true; }

  // A number for the region with this key, valid at this endpoint and at those that over() returns.
  // Sends nothing and waits for nobody. `mismatch`: the bytes are no key, or not one of the peer's
  // interface. `no_permission`: why the region's memory cannot be reached from here.
  Result<std::uint32_t> import_region(std::string_view key);
  // The same with a number of the caller's, which is not in use here: for a bond and its paths.
  virtual Status import_region_as(std::uint32_t number, std::string_view key);
  // The number names nothing any more. The work on the region has completed.
  virtual void drop_region(std::uint32_t) {}
  // The endpoint over which one-sided work reaches the peer's interface of this number, in the
  // order in which the peer opened its networks; nullptr if no path to that interface works now.
  // For what belongs to one interface, as a lock word does. It may be another endpoint after each
  // turn. Its completions come out of the poll() of the interface that connected this endpoint.
  [[nodiscard]] virtual Endpoint* over(int member) {
    return member == peer_member_ && failure().ok() ? this : nullptr;
  }
  // Whoever opened several interfaces as one says which of the peer's this endpoint leads to.
  void lead_to(int member) { peer_member_ = member; }

 private:
  int peer_member_ = 0;
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

  // Exposes memory as a region, until withdraw() or the end of this interface. Peers reach it
  // without our lane where the transport can do without it (Endpoint::work_needs_peer()).
  // `exhausted`: it could not be registered; the text says what to set.
  virtual Result<Region> expose(std::span<std::byte> memory);
  // Ends the registration of that region. When it returns, no transport touches the memory for a
  // peer any more, but for shared memory: there a peer's own processor may be at it. A number that
  // is not exposed here is ignored.
  virtual void withdraw(std::uint32_t) {}

  // The largest payload of post_piece(); at least InterfaceOptions::payload_bytes.
  [[nodiscard]] virtual std::size_t piece_bytes() const = 0;

  // One turn of this interface: takes in arrivals, releases and completions, which some transports
  // show only after it. Cheap when there is nothing to do. It returns false if nothing has arrived,
  // left or failed since the last turn; a caller that has looked at its endpoints since then need
  // not look again.
  virtual bool progress() = 0;
  // Whether nothing waits to be sent from here. While this is false somebody must call progress(),
  // because a peer may wait for what has not left.
  [[nodiscard]] virtual bool flushed() const { return true; }
  // Whether peers may need turns of this interface although nothing waits to be sent: to hear what
  // came over a path that they have given up, and to get the rest again.
  [[nodiscard]] virtual bool answers_peers() const { return false; }
  // Completions of one-sided work, oldest first; returns how many were written to the span.
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

  // Tells the peers that nothing more will come. One-sided work that has not ended completes with
  // `closed`, and so does work that is posted later. Posting a notice answers full from now on, and
  // released() counts every notice, as no peer will release them any more.
  virtual void close() = 0;
  // Bytes of rings and slots that this interface holds for its endpoints.
  [[nodiscard]] virtual std::size_t endpoint_bytes() const = 0;
};

// Finds a peer's address when a stranger asks for attention.
using AddressResolver = std::function<Result<std::string>(Rank)>;

}  // namespace weft
