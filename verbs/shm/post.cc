// The sending side of the data path. No allocation, lock or system call, but for the one that wakes
// a sleeper.
#include <cstring>

#include "verbs/shm/interface.h"

namespace weft::shm {
namespace {

// Copies all of a header but the stamp, in words of 8 bytes and never wider. A load gets the value
// of a store just before it only if that store covers the whole load. A wider load would wait until
// all earlier stores have left the core, and those of the last message may still wait for their
// cache line. The atomic accesses keep compilers from merging the copies.
void copy_words(const WireHeader& from, WireHeader& to) {
  using Word [[gnu::may_alias]] = std::uint64_t;
  static_assert(offsetof(WireHeader, stamp) == 6 * sizeof(Word) + sizeof(WireHeader::checksum));
  const auto* source = reinterpret_cast<const Word*>(&from);
  auto* target = reinterpret_cast<Word*>(&to);
  const auto copy = [&](std::size_t i) {
    __atomic_store_n(target + i, __atomic_load_n(source + i, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
  };
  copy(0);
  copy(1);
  copy(2);
  copy(3);
  copy(4);
  copy(5);
  to.checksum = from.checksum;
  copy(7);
}

// Asks for a cache line that is written soon. GCC makes of __builtin_prefetch what only reads, unless it
// compiles for a processor that is known to have prefetchw; the others take it for a no-op.
void claim(const WireHeader* line) {
#ifdef __x86_64__
  asm volatile("prefetchw %0" : : "m"(*line));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace

void ask_attention(ControlBlock& block, std::uint32_t rank) {
  block.askers[rank / 64].fetch_or(std::uint64_t{1} << rank % 64, std::memory_order_release);
  block.attention.exchange(1, std::memory_order_acq_rel);
}

Posted ShmEndpoint::post(std::uint32_t channel, const WireHeader& header,
                         std::span<const std::byte> payload, Payload) {
  if (interface_.closed()) [[unlikely]]
    return Posted::full;
  Outgoing& out = outgoing_[channel];
  const bool has_payload = !payload.empty();
  const std::size_t at = out.payloads_posted & payload_mask_;
  const auto is_full = [&] {
    return out.posted - out.released_seen > slot_mask_ ||
           (has_payload && out.payload_ends[at] > out.released_seen);
  };
  if (is_full()) {
    out.released_seen = out.released_line->load(std::memory_order_acquire);
    if (is_full()) return Posted::full;
  }
  WireHeader* target = out.headers + (out.posted & slot_mask_);
  if (has_payload) {
    std::memcpy(out.payloads + at * payload_stride_, payload.data(), payload.size());
    out.payload_ends[at] = out.posted + 1;
    ++out.payloads_posted;
  }
  copy_words(header, *target);
  stamp_in(target).store(stamp_of(out.posted, has_payload), std::memory_order_release);
  ++out.posted;
  if (!has_payload) {
    const Outgoing& following = outgoing_[out.following];
    claim(following.headers + (following.posted & slot_mask_));
  }
  if (channel == kControlChannel) {
    ask_attention(*peer_block_, interface_.block().rank);
  }
  wake_peer();
  return Posted::posted;
}

std::uint64_t ShmEndpoint::released(std::uint32_t channel) {
  Outgoing& out = outgoing_[channel];
  if (interface_.closed()) [[unlikely]]
    return out.posted;
  if (out.released_seen != out.posted) {
    out.released_seen = out.released_line->load(std::memory_order_acquire);
  }
  return out.released_seen;
}

void ShmEndpoint::wake_peer() {
  if (peer_block_->sleeping.load(std::memory_order_relaxed) != kAwake) [[unlikely]]
    wake_owner(*peer_block_, bell_);
}

}  // namespace weft::shm
