// Running operations on the lane: beginning, advancing, finishing, waiting.
#include <fmt/core.h>

#include <algorithm>

#include "engine/context/core.h"

namespace weft {
namespace {

// How often a caller that only tests has the unlikely looked at.
constexpr std::int64_t kLookNs = 1'000'000;
// The longest sleep of a lane that runs nothing and only keeps what a peer has yet to answer, a note
// for instance. The peer may be idle, too, and take no turn for hours; its answer wakes the lane.
// Nobody waits for it, so there is no polling before the sleep.
constexpr std::int64_t kIdleSleepNs = 1'000'000'000;

}  // namespace

// Gives the operation its number and its channel's execution the work: what it ran last, once again,
// or the slot's invocation.
void Context::Core::begin(Slot& slot, bool is_again) {
  const CachedPlan& cached = *slot.invocation.plan;
  Call& call = slot.invocation.call;
  if (slot.is_partial) {
    slot.number = partial_operations_++;
  } else {
    slot.number = next_operation_++;
    next_slot_ = next_slot_ + 1 < slots_.size() ? next_slot_ + 1 : 0;
  }
  slot.queries = 0;
  slot.deadline_ns = 0;
  last_slot_ = &slot;
  call.epoch = membership_.epoch();
  if (!slot.is_partial) {
    call.operation = static_cast<std::uint32_t>(slot.number);
    for (Contact* contact : call.in) contact->took_part(slot.number);
    for (Contact* contact : call.out) contact->took_part(slot.number);
  }
  ring_->add(Event::operation_begin, call.operation, kNoRank, cached.trace_name);
  Status status = is_again
                      ? slot.execution.start_again(call.operation, call.epoch, call.self_weight)
                      : slot.execution.start(cached.plan, call);
  if (!status.ok()) slot.execution.fail(std::move(status));
  running_.push_back(&slot);
  stirred_ = true;
}

// One turn of everything in flight. True if anything moved.
bool Context::Core::advance_all() {
  take_turn();
  return advance_running();
}

// The network's turn. Shared memory needs none and tells nothing: it is looked at each time.
void Context::Core::take_turn() {
  stirred_ |= !config_.transports.networks() || interface_->progress();
}

bool Context::Core::advance_running() {
  stirred_ = false;
  for (std::size_t i = 0; i < running_.size();) {
    const std::size_t before = running_.size();
    stirred_ |= advance(i);
    if (running_.size() == before) ++i;
  }
  return stirred_;
}

// The same for one of running_, which leaves it when it is done. True if it moved.
bool Context::Core::advance(std::size_t index) {
  Slot& slot = *running_[index];
  slot.execution.advance();
  if (is_running(slot)) return slot.execution.moved();
  running_[index] = running_.back();
  running_.pop_back();
  finish(slot);
  return true;
}

// The last turn before the caller does something else: what was posted leaves, and the peers learn
// what we have released.
void Context::Core::flush() {
  if (config_.transports.networks() && !interface_->flushed()) take_turn();
}

// A rank that shares our core with us must run before anything else helps.
bool Context::Core::core_is_wanted() {
  return std::ranges::any_of(running_,
                             [](Slot* slot) { return slot->execution.waits_for_this_core(); });
}

void Context::Core::finish(Slot& slot) {
  const Status& status = slot.execution.status();
  ring_->add(Event::operation_end, slot.invocation.call.operation, status.rank(),
             static_cast<std::uint16_t>(status.code()));
  ++completed_;
  if (!status.ok()) fail_all(status, slot.execution.touched_output());
  if (slot.is_partial) {
    idle_partial_slots_.push_back(&slot);
    partial_ended_ = true;
  }
  if (slot.operation == nullptr) return;
  in_flight_.fetch_sub(1, std::memory_order_relaxed);
  complete(std::exchange(slot.operation, nullptr), failed_ ? failure_ : status);
}

void Context::Core::start_queued() {
  while (!queue_.empty() && !failed_ && !is_running(next_slot())) {
    Slot& slot = next_slot();
    slot.operation = std::move(queue_.front());
    queue_.pop_front();
    std::swap(slot.invocation, slot.operation->invocation);
    slot.asked.is_whole = false;
    begin(slot);
    advance(running_.size() - 1);
  }
}

void Context::Core::enqueue(std::shared_ptr<PendingOperation> operation) {
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  queue_.push_back(std::move(operation));
  start_queued();
  flush();
}

// Polls until done() holds. The token is held on entry and on return, and lent to others that want
// it meanwhile.
template <typename Done>
void Context::Core::drive(Done&& done) {
  const LogScope scope(voice_);
  Backoff backoff(policy_);
  bool core_wanted = false;
  while (true) {
    take_turn();
    const bool looks = stirred_;  // what stood still moves by news only
    const bool moved = looks && advance_running();
    if (!queue_.empty()) start_queued();
    if (partial_ended_) start_partial_queued();
    if (done()) return flush();
    if (moved) {
      backoff.reset();
      continue;
    }
    if (token_.wanted()) {
      flush();
      token_.lend();
      if (done()) return;
    }
    const bool idle = running_.empty();
    if (looks) core_wanted = core_is_wanted();
    switch (idle ? Backoff::Next::sleep : backoff.next(core_wanted)) {
      case Backoff::Next::again:
        break;
      case Backoff::Next::slow:
        look_around();
        break;
      case Backoff::Next::sleep:
        look_around();
        ring_->add(Event::sleep, 0);
        interface_->sleep(idle ? kIdleSleepNs : policy_.sleep_ns,
                          [&] { return advance_all() || done() || token_.wanted(); });
        ring_->add(Event::wake, 0);
        stirred_ = true;
        break;
    }
  }
}

void Context::Core::drive_until_relieved(const std::function<bool()>& relieved) {
  drive(relieved);
}

void Context::Core::wait_for_turn() {
  const Waiting waiting(waiters_);
  drive([this] { return failed_ || (queue_.empty() && !is_running(next_slot())); });
}

// Until no operation of all ranks is in flight.
void Context::Core::wait_for_all() {
  const Waiting waiting(waiters_);
  drive([this] {
    return failed_ || (queue_.empty() && std::ranges::all_of(running_, &Slot::is_partial));
  });
}

Status Context::Core::run_to_end(Slot& slot) {
  {
    const Waiting waiting(waiters_);
    drive([&] { return !is_running(slot); });
  }
  hand_over();
  const Status& status = slot.execution.status();
  if (status.ok()) return {};
  return failure_;
}

void Context::Core::complete(const std::shared_ptr<PendingOperation>& operation, Status status) {
  std::vector<std::function<void(const Status&)>> calls;
  {
    const std::lock_guard lock(operation->mutex);
    operation->status = std::move(status);
    operation->done.store(true, std::memory_order_release);
    if (operation->calls.empty()) return;
  }
  const std::lock_guard lock(completion_mutex_);
  completed_operations_.push_back(operation);
  completion_wanted_.notify_one();
}

bool Context::Core::test(PendingOperation& operation) {
  if (operation.done.load(std::memory_order_acquire)) return true;
  if (token_.try_acquire()) {
    advance_all();
    start_queued();
    if (partial_ended_) start_partial_queued();
    flush();
    if (const std::int64_t now = now_ns(); now - looked_ns_ >= kLookNs) {
      looked_ns_ = now;
      look_around();
    }
    token_.release();
  }
  return operation.done.load(std::memory_order_acquire);
}

void Context::Core::drive_to_end(PendingOperation& operation) {
  {
    const Waiting waiting(waiters_);
    drive([&] { return operation.done.load(std::memory_order_acquire); });
  }
  hand_over();
}

// A caller that waited goes; what is left is the thread's.
void Context::Core::hand_over() {
  waits_.store(waits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const bool is_flushed = !config_.transports.networks() || interface_->flushed();
  if (in_flight_.load(std::memory_order_relaxed) != 0 || !is_flushed) wake_thread();
}

Status Context::Core::wait(PendingOperation& operation) {
  if (!operation.done.load(std::memory_order_acquire)) {
    take_lane();
    drive_to_end(operation);
    token_.release();
  }
  return operation.status;
}

}  // namespace weft
