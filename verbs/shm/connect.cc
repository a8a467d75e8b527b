// Connecting: mapping a peer's heap, making our ring for it, finding its ring for us. No step needs
// the peer's help.
#include <fmt/core.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include "verbs/shm/body.h"
#include "verbs/shm/interface.h"

namespace weft::shm {
namespace {

// The channel on which the next notice is expected after one of `channel`. Operations that come back to
// back use the channels between the first and the last in turn. The next header of that channel is
// fetched ahead of time.
std::uint32_t following(std::uint32_t channel, std::uint32_t channels) {
  return channel + 2 < channels ? channel + 1 : std::min(1U, channels - 1);
}

Result<Address> decode(std::string_view bytes, Rank peer, std::uint64_t machine) {
  Address address;
  if (bytes.size() != sizeof address) {
    return Status(
        Code::mismatch,
        fmt::format("rank {}'s shm address has {} bytes instead of {}: another version of Weft?",
                    peer, bytes.size(), sizeof address),
        peer);
  }
  std::memcpy(&address, bytes.data(), sizeof address);
  if (address.wire_version != kVersion) {
    return Status(Code::mismatch,
                  fmt::format("rank {} speaks wire version {}.{}, this rank {}.{}", peer,
                              address.wire_version >> 8, address.wire_version & 255, kVersion >> 8,
                              kVersion & 255),
                  peer);
  }
  if (address.machine != machine) {
    return Status(
        Code::unavailable,
        fmt::format("rank {} is on another machine; shared memory does not reach it", peer), peer);
  }
  return address;
}

// Errors name the rank, not its process alone, which may be numbered anew in a container.
Result<std::shared_ptr<const PeerHeap>> open_heap(const HeapIdentity& identity, Rank peer) {
  Result<std::shared_ptr<const PeerHeap>> heap = PeerHeap::open(identity);
  if (heap.ok()) return heap;
  const Status& why = heap.status();
  if (why.code() == Code::unavailable)
    log(LogLevel::warning, fmt::format("a network has to reach rank {}: {}", peer, why.text()));
  return Status(why.code(), fmt::format("rank {}: {}", peer, why.text()), peer);
}

Status no_control_block(Rank peer) {
  return Status(Code::mismatch,
                fmt::format("what rank {} announced is not its shared memory", peer), peer);
}

Status check_control_block(const ControlBlock& theirs, const ControlBlock& ours, Rank peer) {
  if (theirs.rank != static_cast<std::uint32_t>(peer)) return no_control_block(peer);
  if (theirs.job != ours.job) {
    return Status(Code::mismatch, fmt::format("rank {} belongs to another job", peer), peer);
  }
  if (theirs.context != ours.context)
    return differ(peer, "context number", theirs.context, ours.context);
  if (theirs.channels != ours.channels)
    return channels_differ(peer, theirs.channels, ours.channels);
  if (theirs.payload_slots != ours.payload_slots)
    return differ(peer, "WEFT_SLOTS", theirs.payload_slots, ours.payload_slots);
  if (theirs.slots != ours.slots)
    return differ(peer, "notices per channel", theirs.slots, ours.slots);
  if (theirs.payload_bytes != ours.payload_bytes)
    return differ(peer, "WEFT_EAGER_BYTES", theirs.payload_bytes, ours.payload_bytes);
  return {};
}

// ok, or why this process may not read that of the peer.
Status probe_process_access(Rank peer, const PeerHeap& heap) {
  if (heap.is_own()) return {};
  const pid_t process = heap.process();
  if (process < 0) {
    return Status(
        Code::no_permission,
        fmt::format("the memory of rank {} cannot be read: its process is in another pid namespace",
                    peer),
        peer);
  }
  // The kernel checks the permission before the address, so reading address 0 tells one from the
  // other.
  std::byte probe{};
  iovec local{&probe, 1};
  iovec remote{nullptr, 1};
  if (process_vm_readv(process, &local, 1, &remote, 1, 0) < 0 && errno != EFAULT) {
    return system_error(fmt::format("reading the memory of process {} (rank {})", process, peer),
                        errno);
  }
  return {};
}

EndpointProperties properties_to(Rank peer, const PeerHeap& heap, const ControlBlock& ours,
                                 const ControlBlock& theirs) {
  EndpointProperties made;
  made.peer = peer;
  made.shares_memory = true;
  made.shares_process = heap.is_own();
  made.shares_core = ours.core >= 0 && ours.core == theirs.core;
  made.process_access = probe_process_access(peer, heap);
  return made;
}

}  // namespace

Result<Endpoint*> ShmInterface::connect(Rank peer, std::string_view bytes) {
  WEFT_ASSIGN(const Address address, decode(bytes, peer, options_.machine));
  const auto known = endpoints_.find(peer);
  if (known != endpoints_.end() && known->second->leads_to(address)) return known->second.get();
  WEFT_ASSIGN(std::shared_ptr<const PeerHeap> heap, open_heap(address.heap, peer));
  const std::uint64_t offset = offset_of(address.block);
  auto* peer_block = offset % kLine == 0
                         ? static_cast<ControlBlock*>(heap->at(offset, sizeof(ControlBlock)))
                         : nullptr;
  if (peer_block == nullptr || peer_block->magic != ControlBlock::kMagic)
    return no_control_block(peer);
  if (!enter(*peer_block, address.block))
    return Status(Code::peer_left, fmt::format("rank {} has left", peer), peer);
  const Status checked = check_control_block(*peer_block, *block_, peer);
  const Result<OwnRing> ring = checked.ok() ? make_ring(address) : checked;
  if (!ring.ok()) {
    leave(*peer_block);
    return ring.status();
  }
  auto endpoint =
      std::make_unique<ShmEndpoint>(*this, peer, address, std::move(heap), peer_block, *ring);
  Endpoint* raw = endpoint.get();
  if (known != endpoints_.end()) {
    replaced_.push_back(std::exchange(known->second, std::move(endpoint)));
    // The new interface may have asked for attention while only the old one was known.
    ask_attention(*block_, static_cast<std::uint32_t>(peer));
  } else {
    endpoints_.emplace(peer, std::move(endpoint));
  }
  return raw;
}

Result<OwnRing> ShmInterface::make_ring(const Address& address) {
  WEFT_ASSIGN(void* memory, allocate(sizeof(Ring)));
  Result<std::byte*> body = take_body(geometry_);
  if (!body.ok()) {
    deallocate(memory);
    return body.status();
  }
  auto* ring = new (memory) Ring{};
  ring->peer_nonce = address.heap.nonce;
  ring->peer_block = address.block;
  ring->body = heap_offset(*body, geometry_.body_bytes());
  ring->next = block_->rings.load(std::memory_order_relaxed);
  block_->rings.store(heap_offset(ring, sizeof(Ring)), std::memory_order_release);
  rings_.push_back(ring);
  ring_bytes_ += sizeof(Ring) + geometry_.body_bytes();
  return OwnRing{ring, *body};
}

std::optional<Rank> ShmInterface::next_asker() {
  if (askers_ == 0) {
    if (block_->attention.load(std::memory_order_relaxed) == 0) return std::nullopt;
    block_->attention.exchange(0, std::memory_order_acquire);
    for (std::size_t looked = 0; looked < block_->askers.size() && askers_ == 0; ++looked) {
      askers_word_ = (askers_word_ + 1) % block_->askers.size();
      if (block_->askers[askers_word_].load(std::memory_order_relaxed) == 0) continue;
      askers_ = block_->askers[askers_word_].exchange(0, std::memory_order_acquire);
    }
    if (askers_ == 0) return std::nullopt;
    block_->attention.exchange(1, std::memory_order_acq_rel);  // other words may hold more
  }
  const int bit = std::countr_zero(askers_);
  askers_ &= askers_ - 1;
  return static_cast<Rank>(askers_word_ * 64 + static_cast<std::size_t>(bit));
}

// An asker is passed over if its notice was released in the meantime.
Result<Endpoint*> ShmInterface::attention() {
  for (std::size_t asked = 0; asked < kMostRanks; ++asked) {
    const std::optional<Rank> peer = next_asker();
    if (!peer) return nullptr;
    const auto known = endpoints_.find(*peer);
    if (known == endpoints_.end()) {
      const Result<std::string> address = resolver_(*peer);
      if (address.ok()) return connect(*peer, *address);
      ask_attention(*block_, static_cast<std::uint32_t>(*peer));  // in a later turn
      return address.status();
    }
    if (known->second->front(kControlChannel).header != nullptr) return known->second.get();
  }
  return nullptr;
}

ShmEndpoint::ShmEndpoint(ShmInterface& interface, Rank peer, const Address& address,
                         std::shared_ptr<const PeerHeap> heap, ControlBlock* peer_block,
                         const OwnRing& ring)
    : Endpoint(properties_to(peer, *heap, interface.block(), *peer_block), true),
      interface_(interface),
      heap_nonce_(address.heap.nonce),
      block_name_(address.block),
      process_(heap->process()),
      slot_mask_(interface.geometry().slots - 1),
      payload_mask_(interface.geometry().payload_slots - 1),
      payload_stride_(interface.geometry().payload_bytes),
      peer_block_(peer_block),
      ring_(ring),
      heap_(std::move(heap)),
      bell_(heap_),
      order_(interface.completions()) {
  const Geometry& geometry = interface.geometry();
  outgoing_.resize(geometry.channels);
  payload_ends_.resize(std::size_t{geometry.channels} * geometry.payload_slots);
  for (std::uint32_t c = 0; c < geometry.channels; ++c) {
    outgoing_[c] = {geometry.headers(ring.body, c), geometry.payloads(ring.body, c),
                    &Geometry::release_line(ring.body, c)->released,
                    &payload_ends_[std::size_t{c} * geometry.payload_slots],
                    following(c, geometry.channels)};
  }
  ring_.ring->reads_private.store(properties_.process_access.ok() ? 1 : 0,
                                  std::memory_order_release);
}

std::string ShmEndpoint::describe() const {
  return std::string(interface_.name());
}

bool ShmEndpoint::reads_private_memory() {
  if (incoming_.empty() && !find_incoming()) return false;
  return peer_ring_->reads_private.load(std::memory_order_relaxed) != 0;
}

// A peer may make its ring for us at any time. Its list of rings is searched only if it has grown
// since the last search. All bounds hold, whatever the peer has written there.
bool ShmEndpoint::find_incoming() {
  if (interface_.closed()) return false;
  const std::uint64_t head = peer_block_->rings.load(std::memory_order_acquire);
  if (head == rings_seen_) return false;
  const Geometry& geometry = interface_.geometry();
  std::uint64_t offset = head;
  for (std::size_t looked = 0; looked < kMostRanks && offset != 0 && offset != rings_seen_;
       ++looked) {
    auto* ring = static_cast<Ring*>(heap_->at(offset, sizeof(Ring)));
    if (ring == nullptr || offset % kLine != 0) break;
    if (interface_.owns(*ring)) {
      auto* body = static_cast<std::byte*>(heap_->at(ring->body, geometry.body_bytes()));
      if (body == nullptr || ring->body % kLine != 0) break;
      peer_ring_ = ring;
      incoming_.resize(geometry.channels);
      for (std::uint32_t c = 0; c < geometry.channels; ++c) {
        incoming_[c] = {geometry.headers(body, c), geometry.payloads(body, c),
                        &Geometry::release_line(body, c)->released,
                        following(c, geometry.channels)};
      }
      break;
    }
    offset = ring->next;
  }
  rings_seen_ = head;
  return !incoming_.empty();
}

// Tells the peer that we do not use the body of its ring any more; the peer may then reuse it for
// another rank. A peer that has not made a ring for us yet will find our control block closed.
void ShmEndpoint::look_away() {
  if (incoming_.empty() && !find_incoming()) return;
  peer_ring_->left.store(1, std::memory_order_release);
  incoming_.clear();
}

void ShmEndpoint::leave() {
  if (peer_closed()) ring_.ring->left.store(1, std::memory_order_release);
  leave_body(ring_.body, interface_.geometry().body_bytes(), ring_.ring, heap_->process());
  shm::leave(*peer_block_);
}

}  // namespace weft::shm
