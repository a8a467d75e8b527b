// admission: which operation may begin now, and in which slot. All operations that are called wait
// here until they may begin. Operations of all ranks and operations of some ranks (subset
// operations) differ in the rule by which they may begin:
//
//  - Operations of all ranks begin in the order of their calls. Operation n runs on channel
//    1 + n % channels at every rank, so a channel's messages belong to one operation at a time and
//    need no matching. An operation waits until the operation before it on its channel has ended.
//  - Operations of some ranks (send, recv, pair_average, group_average) have no place in the order
//    that all ranks share, because the other ranks do not call them. All of them use one channel,
//    the last. Between two ranks that channel is one ordered stream in each direction. An operation
//    holds the streams that it uses, from its call to its end: a send holds the stream to its
//    receiver, a recv the stream from its sender, an average both streams to and from every rank
//    that it talks to. An operation whose streams are free begins at once, whatever else waits. An
//    operation that shares a stream with an earlier one waits for the earlier one.
//
// For subset operations, therefore, only the order of those that two ranks share in a direction
// matters: the k-th of one rank is the k-th of the other. If a rank calls them in another order, it
// finds the wrong operation, group, type or size at the front of a stream, which is an error at
// both ranks. If operations wait for one another in a circle, the deadline ends them.
//
// A lane that runs parts of operations runs each on the same channel and under the same number as
// the other lanes do, and leaves out the numbers of operations that have no part there.
//
// Admission belongs to the holder of the lane's token.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "engine/execute/execute.h"
#include "engine/operation/operation.h"

namespace weft {

// A place where one operation at a time runs.
struct LaneSlot {
  static constexpr std::uint64_t kNoOperation = ~std::uint64_t{0};  // none has run here
  LaneSlot(const ExecutionOptions& options, bool of_some)
      : execution(options), channel(options.channel), is_of_some_ranks(of_some) {}

  Execution execution;
  BoundCall bound_call;  // of the operation that runs here, or ran last
  // The operation that runs here; null: none, or a repeated blocking call.
  std::shared_ptr<Operation> operation;
  std::int64_t deadline_ns = 0;  // 0: the operation has not been seen waiting
  // The operation's number. Operations of all ranks and subset operations are numbered separately.
  std::uint64_t number = kNoOperation;
  // The number of the call to which the bound call is bound, if it may run once more as it is; 0: it
  // may not.
  std::uint64_t bound = 0;
  std::uint64_t flight =
      FlightRing::kNoPlace;      // of the operation that runs here, if it has a record
  bool is_large = false;         // the bound call has so many bytes that the clock does not count
  std::uint32_t departures = 0;  // how often check_liveness() found a needed rank out of reach
  std::uint32_t queries = 0;     // how often check_liveness() found the operation waiting
  const std::uint32_t channel;
  const bool is_of_some_ranks;

  [[nodiscard]] bool is_running() const { return execution.state() == Execution::State::running; }
};

class Admission {
 public:
  // Every execution gets `options`, with its channel filled in. Operations of all ranks use the
  // channels 1 to `channels`, subset operations channel `channels` + 1.
  Admission(const ExecutionOptions& options, std::uint32_t channels);

  // The slot of the next operation of all ranks.
  [[nodiscard]] LaneSlot& next_slot() { return *slots_[next_slot_]; }
  // Whether an operation of all ranks that is called now begins at once.
  [[nodiscard]] bool is_next_slot_free() { return in_order_.empty() && !next_slot().is_running(); }

  // Adds an operation to those that wait to begin.
  void wait(std::shared_ptr<Operation> operation);
  // Whether begin_ready() may find an operation that can begin.
  [[nodiscard]] bool has_news() const { return !in_order_.empty() || is_by_stream_changed_; }
  // Calls `begin(slot, operation)` for each waiting operation that may begin, in the order of the
  // calls. `running`: the lane's slots in which an operation runs.
  template <typename Begin>
  void begin_ready(const std::vector<LaneSlot*>& running, Begin&& begin) {
    while (!in_order_.empty()) {
      if (in_order_.front()->whole != nullptr) skip_to(in_order_.front()->number);
      if (next_slot().is_running()) break;
      std::shared_ptr<Operation> operation = std::move(in_order_.front());
      in_order_.pop_front();
      begin(next_slot(), std::move(operation));
    }
    if (!is_by_stream_changed_) return;
    is_by_stream_changed_ = false;
    if (by_stream_.empty()) return;
    claim_running(running);
    std::size_t waiting = 0;
    for (std::shared_ptr<Operation>& operation : by_stream_) {
      if (claim(operation->bound_call.call)) {
        begin(idle_slot(), std::move(operation));
      } else {
        std::swap(by_stream_[waiting++], operation);
      }
    }
    by_stream_.resize(waiting);
  }
  // The slot that runs, or ran last, the operation of all ranks with that number; nullptr: none.
  [[nodiscard]] const LaneSlot* slot_of(std::uint64_t operation) const {
    const LaneSlot& slot = *slots_[operation % slots_.size()];
    return slot.number == operation ? &slot : nullptr;
  }
  // The slots of operations of all ranks, by channel.
  [[nodiscard]] const std::vector<std::unique_ptr<LaneSlot>>& slots() const { return slots_; }
  // Gives the operation that begins in the slot its number.
  void count(LaneSlot& slot) {
    if (slot.is_of_some_ranks) {
      slot.number = stream_operations_++;
    } else {
      slot.number = next_operation_++;
      next_slot_ = next_slot_ + 1 < slots_.size() ? next_slot_ + 1 : 0;
    }
  }
  // The slot's operation has ended.
  void ended(LaneSlot& slot) {
    if (slot.is_of_some_ranks) stream_ended(slot);
  }
  // Whether an operation that was called takes what comes from this peer on the channel of subset
  // operations. `running`: as for begin_ready().
  [[nodiscard]] bool is_taken(const PeerConnection& from,
                              const std::vector<LaneSlot*>& running) const;
  [[nodiscard]] std::uint32_t stream_channel() const { return options_.channel; }
  // Calls `see` for each waiting operation.
  template <typename See>
  void for_each_waiting(See&& see) const {
    for (const auto& operation : in_order_) see(*operation);
    for (const auto& operation : by_stream_) see(*operation);
  }
  // Removes and returns all waiting operations.
  [[nodiscard]] std::vector<std::shared_ptr<Operation>> withdraw();

  [[nodiscard]] bool is_empty() const { return in_order_.empty() && by_stream_.empty(); }
  [[nodiscard]] bool has_waiting_in_order() const { return !in_order_.empty(); }
  // How many operations of all ranks have begun: the number of the next one. A lane that runs parts
  // of operations has only the numbers of those.
  [[nodiscard]] std::uint64_t next_operation() const { return next_operation_; }
  // The number that an operation of all ranks gets that is called now.
  [[nodiscard]] std::uint64_t number_of_next_call() const {
    return next_operation_ + in_order_.size();
  }
  [[nodiscard]] std::size_t channels() const { return slots_.size(); }
  [[nodiscard]] std::uint64_t allocations() const;
  [[nodiscard]] std::size_t scratch_bytes() const;

 private:
  // The next operation of all ranks has this number, which is not below the next one.
  void skip_to(std::uint64_t operation) {
    next_operation_ = operation;
    next_slot_ = operation % slots_.size();
  }
  void stream_ended(LaneSlot& slot);
  bool claim(const Call& call);
  void claim_running(const std::vector<LaneSlot*>& running);
  LaneSlot& idle_slot();

  const ExecutionOptions options_;
  // Operations of all ranks.
  std::vector<std::unique_ptr<LaneSlot>> slots_;  // by channel
  std::deque<std::shared_ptr<Operation>> in_order_;
  std::uint64_t next_operation_ = 0;
  std::size_t next_slot_ = 0;  // next_operation_ modulo the number of slots, without the division
  // Subset operations. At most as many run at once as there are streams, which are two for each
  // peer.
  std::vector<std::unique_ptr<LaneSlot>> stream_slots_;
  std::vector<LaneSlot*> idle_stream_slots_;
  std::deque<std::shared_ptr<Operation>> by_stream_;
  bool is_by_stream_changed_ = false;  // an operation came or ended since the last begin_ready()
  std::uint64_t stream_operations_ = 0;
  // Counts the searches of begin_ready(). A stream is claimed in the current search if the
  // connection's claimed_in or claimed_out has this number.
  std::uint64_t looks_ = 0;
};

}  // namespace weft
