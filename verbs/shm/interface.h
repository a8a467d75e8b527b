// The classes behind shm.h. Internal to the module.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "verbs/shm/control_block.h"
#include "verbs/shm/layout.h"
#include "verbs/shm/marks.h"
#include "verbs/shm/shm.h"

namespace weft::shm {

class ShmInterface;

// A pipe that wakes the owner of a control block while that owner polls descriptors.
class Bell {
 public:
  // `heap`: that of the process to be woken; null: this process.
  explicit Bell(std::shared_ptr<const PeerHeap> heap) : heap_(std::move(heap)) {}
  // The first call asks the other process for its descriptor.
  void ring(const ControlBlock& block);

 private:
  std::shared_ptr<const PeerHeap> heap_;
  Fd copy_;
};

// Wakes the owner of a control block, if it sleeps.
void wake_owner(ControlBlock& block, Bell& bell);

// The transport, in the texts of refused work.
inline constexpr std::string_view kOver = "shared memory";

// By which keys tell our interfaces apart.
[[nodiscard]] inline std::uint64_t owner_of(std::uint64_t heap_nonce, std::uint64_t hall_name) {
  return heap_nonce ^ hall_name;
}

// A region of the peer that was imported.
struct PeerRegion {
  RegionKey key;
  const Mark* mark = nullptr;
  std::byte* here = nullptr;  // the memory, in place; null: private memory of another process
};

// The connection to one peer. The outgoing ring is in our heap. The incoming ring is in the peer's
// heap, and is found there once the peer has made it.
class ShmEndpoint final : public Endpoint {
 public:
  ShmEndpoint(ShmInterface& interface, Rank peer, const Address& address,
              std::shared_ptr<const PeerHeap> heap, ControlBlock* peer_block, const OwnRing& ring);

  // look_away(): our interface closes, and takes nothing more from the peer. leave(): our interface
  // is destroyed; it uses the peer's control block no more, and the body of its ring can be reused.
  void look_away();
  void leave();
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] bool peer_closed() const override {
    return peer_block_->closed.load(std::memory_order_acquire) != 0;
  }
  // Shared memory has no path that could fail or be ended. The death of a peer is noticed by
  // watching its process (PeerHeap::life()).
  void abandon(const Status&) override {}
  // Whether it leads to the interface behind `address`, and not to an earlier one of the same rank.
  [[nodiscard]] bool leads_to(const Address& address) const {
    return heap_nonce_ == address.heap.nonce && block_name_ == address.block;
  }
  // Any payload is copied: a piece is no larger than that of a notice. Larger payloads are named as
  // views instead.
  Posted post(std::uint32_t channel, const WireHeader& header, std::span<const std::byte> payload,
              Payload how) override;
  [[nodiscard]] Notice front(std::uint32_t channel) override;
  void release(std::uint32_t channel) override;
  [[nodiscard]] std::uint64_t arrived(std::uint32_t channel) override;
  [[nodiscard]] std::uint64_t posted(std::uint32_t channel) const override {
    return outgoing_[channel].posted;
  }
  [[nodiscard]] std::uint64_t released(std::uint32_t channel) override;
  // What the peer has released. A payload that was copied could count at once, but a view is needed
  // until its reader has released it.
  [[nodiscard]] std::uint64_t locally_completed(std::uint32_t channel) override {
    return released(channel);
  }
  Posted post_work(const WorkRequest& work) override;
  // Work has ended when post_work() returns.
  [[nodiscard]] WorkState work_state() const override { return order_.state(false); }
  Status import_region_as(std::uint32_t number, std::string_view key) override;
  void drop_region(std::uint32_t number) override { regions_.erase(number); }
  [[nodiscard]] const std::byte* view(const RemoteBuffer& remote) override;
  Status read_now(std::span<std::byte> local, const RemoteBuffer& remote) override;
  [[nodiscard]] bool reads_private_memory() override;
  void wake_peer() override;

 private:
  // The sender's side of a channel.
  struct Outgoing {
    WireHeader* headers;
    std::byte* payloads;
    std::atomic<std::uint64_t>* released_line;  // written by the peer
    std::uint64_t* payload_ends;  // by payload slot: it is free once so many notices are released
    std::uint32_t following;      // the channel of the next notice, if operations come back to back
    std::uint64_t posted = 0;
    std::uint64_t payloads_posted = 0;  // how many of them had a payload
    // What released_line said last. A post reads the line again only when the ring looks full.
    std::uint64_t released_seen = 0;
  };
  // The receiver's side.
  struct Incoming {
    WireHeader* headers;
    std::byte* payloads;
    std::atomic<std::uint64_t>* released_line;  // written by us
    std::uint32_t following;                    // as of Outgoing
    std::uint64_t next = 0;
    std::uint64_t payloads_released = 0;  // how many notices before `next` had a payload
  };

  bool find_incoming();
  // ok, or why one-sided work that is posted now is not done.
  [[nodiscard]] Status may_work();
  Status move(const WorkRequest& work) const;
  // The same in the peer's private memory at `address`, by calls of the kernel.
  Status move_private(const WorkRequest& work, std::uint64_t address) const;
  // regions.cc
  [[nodiscard]] const PeerRegion* reach(const WorkRequest& work, WorkVerdict& why) const;
  Status move_in_region(const WorkRequest& work) const;
  [[nodiscard]] Result<std::uint64_t*> word_in_region(const WorkRequest& work) const;
  [[nodiscard]] Result<std::uint64_t*> word_of(const WorkRequest& work) const;
  Status compare_swap(const WorkRequest& work) const;

  ShmInterface& interface_;
  std::uint64_t heap_nonce_;
  std::uint64_t block_name_;
  pid_t process_;  // -1: in another pid namespace
  std::uint32_t slot_mask_;
  std::uint32_t payload_mask_;
  std::size_t payload_stride_;
  ControlBlock* peer_block_;
  std::uint64_t rings_seen_ = 0;  // the head of the peer's list of rings at the last search
  OwnRing ring_;
  Ring* peer_ring_ = nullptr;  // once found
  std::vector<Outgoing> outgoing_;
  std::vector<std::uint64_t> payload_ends_;  // of all channels
  std::vector<Incoming> incoming_;           // empty until the peer made its ring for us
  std::shared_ptr<const PeerHeap> heap_;
  Bell bell_;
  WorkOrder order_;
  std::unordered_map<std::uint32_t, PeerRegion> regions_;  // by number
};

class ShmInterface final : public Interface {
 public:
  static Result<std::unique_ptr<Interface>> open(Rank rank, const InterfaceOptions& options,
                                                 AddressResolver resolver);
  ~ShmInterface() override;

  [[nodiscard]] std::string address() const override;
  Result<Endpoint*> connect(Rank peer, std::string_view address) override;
  Result<Region> expose(std::span<std::byte> memory) override;
  void withdraw(std::uint32_t number) override;
  // Peers write into memory, and no event tells of it. So there may always be news if there are
  // endpoints. A stranger is found by attention().
  bool progress() override { return !endpoints_.empty(); }
  std::size_t poll(std::span<Completion> completions) override;
  Result<Endpoint*> attention() override;
  void sleep(std::int64_t timeout_ns, const std::function<bool()>& ready) override;
  void wake() override;
  [[nodiscard]] Result<int> descriptor() override;
  [[nodiscard]] bool arm() override;
  void disarm() override;
  void close() override;
  [[nodiscard]] std::size_t endpoint_bytes() const override { return ring_bytes_; }

  [[nodiscard]] const Geometry& geometry() const { return geometry_; }
  [[nodiscard]] const ControlBlock& block() const { return *block_; }
  // Whether a peer made `ring` for this interface.
  [[nodiscard]] bool owns(const Ring& ring) const {
    return ring.peer_nonce == identity_.nonce && ring.peer_block == block_name_;
  }
  // One-sided work ends within the call that posts it. Its completion waits here for poll().
  [[nodiscard]] Completions& completions() { return completions_; }
  [[nodiscard]] bool closed() const { return closed_; }

 private:
  ShmInterface(Rank rank, const InterfaceOptions& options, AddressResolver resolver);
  [[nodiscard]] bool is_ours() const;
  Result<OwnRing> make_ring(const Address& address);
  std::optional<Rank> next_asker();

  Rank rank_;
  InterfaceOptions options_;
  Geometry geometry_;
  AddressResolver resolver_;
  HeapIdentity identity_;
  ControlBlock* block_ = nullptr;
  std::uint64_t block_name_ = 0;
  std::vector<Ring*> rings_;  // all that were made
  // The ranks that ask for attention, taken from one word of the control block and not served yet.
  // All of them are served before the next word is taken, so none is served twice before the
  // others.
  std::uint64_t askers_ = 0;
  std::size_t askers_word_ = 0;
  std::unordered_map<Rank, std::unique_ptr<ShmEndpoint>> endpoints_;
  // Endpoints to interfaces that a peer has replaced; users may still hold them.
  std::vector<std::unique_ptr<ShmEndpoint>> replaced_;
  std::size_t ring_bytes_ = 0;
  Completions completions_;
  std::unordered_map<std::uint32_t, Exposed> exposed_;  // by number
  Fd bell_;                                             // our bell, made by descriptor()
  std::mutex bell_mutex_;                               // wake() may come from any thread
  Bell own_bell_{nullptr};
  bool closed_ = false;
};

// Writes to `there` or reads from it, as the work says.
void copy(const WorkRequest& work, std::byte* there);

// Tells the owner of a control block that `rank` left something on its control channel.
void ask_attention(ControlBlock& block, std::uint32_t rank);

}  // namespace weft::shm
