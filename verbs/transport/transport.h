// transport: the contract between Weft and a network. Shared memory (verbs/shm), RDMA verbs
// (verbs/ib) and UCX (verbs/ucx) keep it, and the engine above knows nothing else. The conformance
// suite in tests/transport is its exact meaning; `weft selftest` runs that suite on a user's own
// devices.
//
// An Interface is one way out of this rank: a NIC port, or the host's shared memory. It gives its
// address as bytes. connect() takes the bytes of a peer's interface and returns an Endpoint at
// once, without an answer from the peer.
//
// An Endpoint has three parts, each with a header of its own: streams of notices (notices.h), the
// peer's memory (remote_memory.h), and the choice among several paths (paths.h), which has a
// meaning only for a bond.
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
#include <utility>

#include "verbs/base/base.h"
#include "verbs/transport/address.h"
#include "verbs/transport/header.h"
#include "verbs/transport/notices.h"
#include "verbs/transport/one_sided.h"
#include "verbs/transport/paths.h"
#include "verbs/transport/regions.h"
#include "verbs/transport/remote_memory.h"

namespace weft {

// The longest address of an interface.
inline constexpr std::size_t kAddressBytes = 1024;

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

// What does not change while an endpoint lives.
struct EndpointProperties {
  Rank peer = kNoRank;
  bool shares_memory = false;    // the peer reads our registered memory in place (PieceForm::view)
  bool shares_process = false;   // and our private memory, too: it is in this process
  bool shares_core = false;      // both are bound to one core: the peer cannot post before we yield
  bool keeps_order = true;       // one-sided work takes effect in the order of posting
  bool work_needs_peer = false;  // one-sided work waits until the peer's lane takes a turn
  Status
      process_access{};  // ok, or why we may not read the peer's private memory (PieceForm::process)
};

class Endpoint : public Notices, public RemoteMemory, public PathChoice {
 public:
  virtual ~Endpoint() = default;
  [[nodiscard]] const EndpointProperties& properties() const { return properties_; }
  [[nodiscard]] Rank peer() const { return properties_.peer; }
  // How notices travel to the peer, for people.
  [[nodiscard]] virtual std::string describe() const = 0;
  // The peer closed its interface in good order: nothing more will come. From any thread.
  [[nodiscard]] virtual bool peer_closed() const = 0;
  // ok while this path works; then, for good, why it does not.
  [[nodiscard]] const Status& failure() const { return failure_; }
  // Ends this path from our side, for the reason given: failure() from now on, nothing of ours is
  // read or written by it any more, and who waits for the peer is told so by failure().
  virtual void abandon(const Status& why) = 0;
  // Whether what is posted can leave: before, it waits until the peer's end is known.
  [[nodiscard]] bool connected() const { return connected_; }

  [[nodiscard]] Endpoint* over(int member) override {
    return member == peer_member_ && failure_.ok() ? this : nullptr;
  }
  // Whoever opened several interfaces as one says which of the peer's this endpoint leads to.
  void set_peer_member(int member) { peer_member_ = member; }

 protected:
  Endpoint(EndpointProperties properties, bool connected)
      : properties_(std::move(properties)), connected_(connected) {}

  const EndpointProperties properties_;
  Status failure_;
  bool connected_;

 private:
  int peer_member_ = 0;
};

class Interface : public Reconnection {
 public:
  virtual ~Interface() = default;
  [[nodiscard]] std::string_view name() const { return name_; }
  // The largest payload of post_piece(); at least InterfaceOptions::payload_bytes.
  [[nodiscard]] std::size_t piece_bytes() const { return piece_bytes_; }
  // Whether this transport has Reconnection::reconnect().
  [[nodiscard]] bool reconnects() const { return reconnects_; }

  // What a peer needs to connect here; opaque. At most kAddressBytes for each way out.
  [[nodiscard]] virtual std::string address() const = 0;
  // Connects to a peer, or returns the endpoint that exists to that address. The endpoint can post
  // at once. A rank that opened a new interface has a new address and so another endpoint; the old
  // one stays until this interface goes.
  virtual Result<Endpoint*> connect(Rank peer, std::string_view address) = 0;
  // An endpoint whose control channel has an arrival, or nullptr. Peers that were never connected
  // are connected through the resolver given at opening.
  virtual Result<Endpoint*> attention() = 0;

  // Exposes memory as a region, until withdraw() or the end of this interface. Peers reach it
  // without our lane where the transport can do without it (EndpointProperties::work_needs_peer).
  // `exhausted`: it could not be registered; the text says what to set.
  virtual Result<Region> expose(std::span<std::byte> memory) = 0;
  // Ends the registration of that region. When it returns, no transport touches the memory for a
  // peer any more, but for shared memory: there a peer's own processor may be at it. A number that
  // is not exposed here is ignored.
  virtual void withdraw(std::uint32_t number) = 0;
  // Completions of one-sided work, oldest first; returns how many were written to the span.
  virtual std::size_t poll(std::span<Completion> completions) = 0;

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
  [[nodiscard]] bool answers_peers() const { return answers_peers_; }

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

 protected:
  Interface() = default;
  Interface(std::string name, std::size_t piece_bytes, bool reconnects)
      : name_(std::move(name)), piece_bytes_(piece_bytes), reconnects_(reconnects) {}

  std::string name_;
  std::size_t piece_bytes_ = 0;
  bool reconnects_ = false;
  bool answers_peers_ = false;
};

// How peers name [pointer, pointer+bytes) of this rank: in place if it lies in Weft's heap, else by
// process address.
[[nodiscard]] RemoteBuffer describe_memory(const void* pointer, std::size_t bytes);

// Finds a peer's address when a stranger asks for attention.
using AddressResolver = std::function<Result<std::string>(Rank)>;

}  // namespace weft
