// The receiving side of the data path: it reads the peer's ring, and says what it has released.
#include "verbs/shm/interface.h"

namespace weft::shm {

Notice ShmEndpoint::front(std::uint32_t channel) {
  if (incoming_.empty() && !find_incoming()) [[unlikely]]
    return {};
  Incoming& in = incoming_[channel];
  WireHeader* header = in.headers + (in.next & slot_mask_);
  if (!is_of(stamp_in(header).load(std::memory_order_acquire), in.next)) return {};
  std::byte* payload = in.payloads + (in.payloads_released & payload_mask_) * payload_stride_;
  __builtin_prefetch(payload);  // fetched while the header is checked
  const Incoming& following = incoming_[in.following];
  __builtin_prefetch(following.headers + (following.next & slot_mask_));
  return {header, payload};
}

void ShmEndpoint::release(std::uint32_t channel) {
  if (incoming_.empty()) [[unlikely]]
    return;  // closed since front() showed it
  Incoming& in = incoming_[channel];
  const std::uint32_t stamp =
      stamp_in(in.headers + (in.next & slot_mask_)).load(std::memory_order_relaxed);
  in.payloads_released += stamp == stamp_of(in.next, true) ? 1 : 0;
  ++in.next;
  in.released_line->store(in.next, std::memory_order_release);
  wake_peer();
}

std::uint64_t ShmEndpoint::arrived(std::uint32_t channel) {
  if (incoming_.empty() && !find_incoming()) return 0;
  const Incoming& in = incoming_[channel];
  std::uint64_t count = in.next;
  while (
      count - in.next <= slot_mask_ &&
      is_of(stamp_in(in.headers + (count & slot_mask_)).load(std::memory_order_acquire), count)) {
    ++count;
  }
  return count;
}

}  // namespace weft::shm
