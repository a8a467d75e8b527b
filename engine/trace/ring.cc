// The reader's side of TraceRing, and the names of events.
#include "engine/trace/ring.h"

#include <algorithm>

namespace weft {

std::string_view name(Event event) {
  switch (event) {
    case Event::operation_begin:
      return "operation_begin";
    case Event::operation_end:
      return "operation_end";
    case Event::send_posted:
      return "send_posted";
    case Event::combine_begin:
      return "combine_begin";
    case Event::combine_end:
      return "combine_end";
    case Event::wait_begin:
      return "wait_begin";
    case Event::wait_end:
      return "wait_end";
    case Event::full:
      return "full";
    case Event::sleep:
      return "sleep";
    case Event::wake:
      return "wake";
    case Event::error:
      return "error";
    case Event::name_submitted:
      return "name_submitted";
    case Event::name_taken:
      return "name_taken";
    case Event::name_runs:
      return "name_runs";
    case Event::name_ended:
      return "name_ended";
    case Event::call_begin:
      return "call_begin";
    case Event::call_end:
      return "call_end";
    case Event::operation_bytes:
      return "operation_bytes";
    case Event::operation_bytes_high:
      return "operation_bytes_high";
    case Event::operation_parts:
      return "operation_parts";
  }
  return "unknown";
}

TraceRing::TraceRing(std::size_t capacity)
    : slots_(std::make_unique<Slot[]>(capacity)), mask_(capacity - 1) {
  invariant(capacity >= 2, "a trace ring holds at least two records");
  invariant(std::has_single_bit(capacity), "a trace ring's capacity is a power of two");
}

Record TraceRing::load(std::uint64_t index) const {
  const Slot& slot = slots_[index & mask_];
  return std::bit_cast<Record>(
      Words{slot[0].load(std::memory_order_acquire), slot[1].load(std::memory_order_acquire)});
}

// The producer may be writing record `written`, over record written - capacity.
std::uint64_t TraceRing::oldest_kept(std::uint64_t written) const {
  return written > mask_ ? written - mask_ : 0;
}

TraceRing::Snapshot TraceRing::snapshot() const {
  if (!on()) return {};
  const std::uint64_t end = written_.load(std::memory_order_acquire);
  const std::uint64_t begin = oldest_kept(end);
  Snapshot snapshot;
  snapshot.records.reserve(end - begin);
  for (std::uint64_t i = begin; i < end; ++i) snapshot.records.push_back(load(i));

  // What the producer has reached meanwhile tells which of the copies may be of newer records.
  const std::uint64_t valid = std::min(end, oldest_kept(written_.load(std::memory_order_relaxed)));
  const auto overwritten = static_cast<std::ptrdiff_t>(valid - begin);
  snapshot.records.erase(snapshot.records.begin(), snapshot.records.begin() + overwritten);
  snapshot.lost = valid;
  return snapshot;
}

}  // namespace weft
