// admission: the slots, and the claims on streams.
#include "engine/lane/admission.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

ExecutionOptions on_channel(ExecutionOptions options, std::uint32_t channel) {
  options.channel = channel;
  return options;
}

}  // namespace

Admission::Admission(const ExecutionOptions& options, std::uint32_t channels)
    : options_(on_channel(options, channels + 1)) {
  for (std::uint32_t channel = 1; channel <= channels; ++channel)
    slots_.push_back(std::make_unique<LaneSlot>(on_channel(options, channel), false));
}

void Admission::wait(std::shared_ptr<Operation> operation) {
  const bool of_some = is_of_some_ranks(operation->bound_call.call.collective);
  (of_some ? by_stream_ : in_order_).push_back(std::move(operation));
  is_by_stream_changed_ |= of_some;
}

void Admission::stream_ended(LaneSlot& slot) {
  idle_stream_slots_.push_back(&slot);
  is_by_stream_changed_ = true;
}

// Claims the streams of a call in the current search. Returns true if none of them was claimed
// before.
bool Admission::claim(const Call& call) {
  bool is_free = true;
  const auto take = [&](std::uint64_t& claimed) {
    is_free &= claimed != looks_;
    claimed = looks_;
  };
  // Where credits check the graph, notices travel in both directions.
  const bool both_ways = call.checks_graph;
  for (PeerConnection* connection : call.in) {
    take(connection->claimed_in);
    if (both_ways) take(connection->claimed_out);
  }
  for (PeerConnection* connection : call.out) {
    const bool is_mutual = both_ways && std::ranges::find(call.in, connection) != call.in.end();
    if (is_mutual) continue;
    take(connection->claimed_out);
    if (both_ways) take(connection->claimed_in);
  }
  return is_free;
}

void Admission::claim_running(const std::vector<LaneSlot*>& running) {
  ++looks_;
  for (const LaneSlot* slot : running) {
    if (slot->is_of_some_ranks) claim(slot->bound_call.call);
  }
}

bool Admission::is_taken(const PeerConnection& from, const std::vector<LaneSlot*>& running) const {
  const auto takes = [&](const Call& call) {
    const auto has = [&](const auto& peers) {
      return std::ranges::find(peers, &from) != peers.end();
    };
    return has(call.in) || (call.checks_graph && has(call.out));
  };
  return std::ranges::any_of(running,
                             [&](const LaneSlot* slot) {
                               return slot->is_of_some_ranks && takes(slot->bound_call.call);
                             }) ||
         std::ranges::any_of(by_stream_, [&](const std::shared_ptr<Operation>& waiting) {
           return takes(waiting->bound_call.call);
         });
}

LaneSlot& Admission::idle_slot() {
  if (idle_stream_slots_.empty()) {
    stream_slots_.push_back(std::make_unique<LaneSlot>(options_, true));
    return *stream_slots_.back();
  }
  LaneSlot& slot = *idle_stream_slots_.back();
  idle_stream_slots_.pop_back();
  return slot;
}

std::vector<std::shared_ptr<Operation>> Admission::withdraw() {
  std::vector<std::shared_ptr<Operation>> all;
  for (auto* queue : {&in_order_, &by_stream_}) {
    std::ranges::move(*queue, std::back_inserter(all));
    queue->clear();
  }
  return all;
}

std::uint64_t Admission::allocations() const {
  std::uint64_t sum = stream_slots_.size();
  for (const auto* slots : {&slots_, &stream_slots_}) {
    for (const auto& slot : *slots) sum += slot->execution.allocations();
  }
  return sum;
}

std::size_t Admission::scratch_bytes() const {
  std::size_t sum = 0;
  for (const auto* slots : {&slots_, &stream_slots_}) {
    for (const auto& slot : *slots) sum += slot->execution.scratch_bytes();
  }
  return sum;
}

}  // namespace weft
