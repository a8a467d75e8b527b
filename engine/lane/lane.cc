// lane: beginning, advancing and finishing operations, and waiting for them.
#include "engine/lane/lane.h"

#include <algorithm>
#include <utility>

#include "scheduler/vocabulary/vocabulary.h"

namespace weft {
namespace {

// The time between two calls of check_liveness() by a caller that only tests.
constexpr std::int64_t kLookNs = 1'000'000;
// The longest sleep of a lane that runs no operation and only waits for a peer's answer, for
// example to a note between two bonds. The peer may be idle, too, and take no turn for hours. Its
// answer wakes the lane. No operation waits for the answer, so the lane does not poll before it
// sleeps.
constexpr std::int64_t kIdleSleepNs = 1'000'000'000;

// An operation of so many bytes takes several microseconds, so that reading the clock twice is no cost.
constexpr std::size_t kTimedBytes = std::size_t{32} << 10;
// A turn takes tens of nanoseconds. What has not moved for so many of them waits.
constexpr int kBriefTurns = 32;

std::size_t bytes_of(const Call& call) {
  return std::max(call.input_count, call.output_count) * size_of(call.type);
}

ExecutionOptions with_lane(ExecutionOptions options, PrivateWays& ways, ScratchPool& scratch,
                           TraceRing& trace) {
  options.ways = &ways;
  options.scratch = &scratch;
  options.trace = &trace;
  return options;
}

// The root, or the other rank.
Rank peer_of(const Call& call, bool is_of_some_ranks) {
  if (!is_of_some_ranks) return has<kHasRoot>(call.collective) ? call.root : kNoRank;
  const auto& peers = call.in.empty() ? call.out : call.in;
  return peers.empty() ? kNoRank : peers.front()->rank;
}

// In the timeline.
std::uint32_t traced_number(const LaneSlot& slot) {
  const std::uint32_t number = slot.bound_call.call.operation;
  return slot.is_of_some_ranks && number == 0
             ? Record::kOfSomeRanks | static_cast<std::uint32_t>(slot.number)
             : number;
}

void trace_begin(const LaneSlot& slot, TraceRing& trace) {
  const Call& call = slot.bound_call.call;
  const std::size_t elements = call.input_count != 0 ? call.input_count : call.output_count;
  trace.add(Event::operation_begin, traced_number(slot), peer_of(call, slot.is_of_some_ranks),
            slot.bound_call.trace_name);
  trace.add_bytes(traced_number(slot), elements * size_of(call.type));
  if (call.stripes > 1)
    trace.add(Event::operation_parts, traced_number(slot), kNoRank,
              static_cast<std::uint16_t>(call.stripes));
}

}  // namespace

void fill_record(const Call& call, bool is_of_some_ranks, FlightRecord& record) {
  record.count = std::max(call.input_count, call.output_count);
  record.sources = static_cast<std::uint16_t>(call.in.size());
  record.destinations = static_cast<std::uint16_t>(call.out.size());
  record.agreement = call.agreement;
  record.collective = call.collective;
  record.type = call.type;
  record.is_of_some_ranks = is_of_some_ranks;
  record.peer = peer_of(call, is_of_some_ranks);
}

Lane::Lane(const LaneOptions& options, std::unique_ptr<Interface> interface, TraceRing& trace,
           const Membership& membership, LaneObserver& observer)
    : options_(options),
      interface_(std::move(interface)),
      trace_(trace),
      membership_(membership),
      observer_(observer),
      admission_(with_lane(options.execution, ways_, scratch_, trace), options.channels),
      flight_(options.home == nullptr ? FlightRing(FlightRing::kRecords) : FlightRing()),
      steps_(*interface_),
      thread_({.name = options.thread_name,
               .grace = options.home != nullptr ? std::chrono::microseconds(0) : LaneThread::kGrace,
               .has_waiter = [this] { return waiters_.load(std::memory_order_relaxed) != 0; },
               .waits = [this] { return waits_.load(std::memory_order_relaxed); },
               .drive = [this](const std::atomic<bool>& stopping) { drive_for_thread(stopping); }},
              options.place) {
  running_.reserve(admission_.channels());
}

Lane::~Lane() {
  close([] {});
}

std::shared_ptr<Operation> Lane::new_operation(const std::shared_ptr<Lane>& self) {
  auto operation = std::make_shared<Operation>(self);
  operation->has_handle = true;
  return operation;
}

std::shared_ptr<Operation> Lane::blocking_operation() {
  std::shared_ptr<Operation> operation = std::exchange(spare_, nullptr);
  if (operation == nullptr) {
    ++allocations_;
    operation = std::make_shared<Operation>(std::weak_ptr<Lane>());
  }
  operation->begin_anew();
  return operation;
}

void Lane::admit(std::shared_ptr<Operation> operation) {
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  operation->enter(Operation::Phase::queued);
  if (!failure_.ok()) return end(operation, failure_);
  admission_.wait(std::move(operation));
  begin_ready();
}

// If no part was in flight, the thread sleeps on its timer or is about to. Else it drives the lane,
// and may sleep on the interface.
void Lane::post(std::shared_ptr<Operation> part) {
  const bool drives = in_flight_.fetch_add(1, std::memory_order_acq_rel) != 0;
  {
    const std::lock_guard lock(post_mutex_);
    posted_.push_back(std::move(part));
    has_posted_.store(true, std::memory_order_release);
  }
  if (drives) {
    interface_->wake();
  } else {
    thread_.call();
  }
}

void Lane::take_posted() {
  if (!has_posted_.load(std::memory_order_acquire)) return;
  std::vector<std::shared_ptr<Operation>> parts;
  {
    const std::lock_guard lock(post_mutex_);
    parts.swap(posted_);
    has_posted_.store(false, std::memory_order_relaxed);
  }
  for (std::shared_ptr<Operation>& part : parts) {
    part->enter(Operation::Phase::queued);
    if (failure_.ok()) {
      if (Status status = options_.connect(part->bound_call); !status.ok())
        observer_.operation_failed(status, false);
    }
    if (!failure_.ok()) {
      end(part, failure_);
    } else {
      admission_.wait(std::move(part));
    }
  }
}

// The way of an output to the caller's memory.
class Lane::TakeOutput final : public OperationStep {
 public:
  TakeOutput(std::shared_ptr<DeviceOperands> operands, const Status& status)
      : operands_(std::move(operands)), status_(status) {
    operands_->ended(status_);
  }

  bool advance() override {
    if (is_over_ || !operands_->is_over()) return false;
    if (status_.ok()) status_ = operands_->output_status();
    is_over_ = true;
    return true;
  }
  void abandon(const Status&) override { operands_->wait_until_over(); }
  [[nodiscard]] bool is_over() const override { return is_over_; }
  [[nodiscard]] const Status& status() const override { return status_; }

 private:
  const std::shared_ptr<DeviceOperands> operands_;
  Status status_;
  bool is_over_ = false;
};

// Every end of an operation comes here: of one that has run here or elsewhere, of this lane's part of
// one, of the way of its output, and of one that never began.
void Lane::end(std::shared_ptr<Operation> operation, Status status) {
  const bool has_output_left = operation->phase() != Operation::Phase::output;
  if (operation->phase() != Operation::Phase::bound)
    in_flight_.fetch_sub(1, std::memory_order_acq_rel);
  if (has_output_left && operation->is_part()) {
    if (operation->whole != nullptr) {
      operation->enter(Operation::Phase::done);
      operation = std::shared_ptr<Operation>(operation->whole);
    }
    if (!operation->end_part(status)) return;
    const std::lock_guard lock(operation->mutex);
    status = operation->part_failure;
  }
  if (has_output_left && operation->operands != nullptr) {
    operation->enter(Operation::Phase::output);
    auto output = std::make_shared<TakeOutput>(operation->operands, status);
    return add(std::move(output), std::move(operation));
  }
  operation->enter(Operation::Phase::done);
  if (!operation->is_in_parts) return callbacks_.complete(operation, status);
  Lane& home = options_.home == nullptr ? *this : *options_.home;
  home.callbacks_.complete(operation, status);
  home.interface_->wake();  // the caller may wait there
}

void Lane::begin_ready() {
  if (!failure_.ok() || !admission_.has_news()) return;
  admission_.begin_ready(running_, [this](LaneSlot& slot, std::shared_ptr<Operation> operation) {
    operation->enter(Operation::Phase::running);
    std::swap(slot.bound_call, operation->bound_call);
    slot.operation = std::move(operation);
    slot.bound = 0;
    begin(slot, false);
  });
}

// Gives the operation its number and starts the slot's execution: with the slot's bound call, or,
// if `is_again`, with what the execution ran last.
void Lane::begin(LaneSlot& slot, bool is_again) {
  admission_.count(slot);
  slot.queries = slot.departures = 0;
  slot.deadline_ns = 0;
  last_ = &slot;
  Call& call = slot.bound_call.call;
  call.epoch = membership_.epoch();
  if (!slot.is_of_some_ranks) {
    call.operation = static_cast<std::uint32_t>(slot.number);
    for (PeerConnection* connection : call.in) connection->took_part(slot.number);
    for (PeerConnection* connection : call.out) connection->took_part(slot.number);
  }
  if (trace_.on()) trace_begin(slot, trace_);
  Status status = is_again
                      ? slot.execution.start_again(call.operation, call.epoch, call.self_weight)
                      : slot.execution.start(*slot.bound_call.plan, call);
  if (!is_again) slot.is_large = bytes_of(call) >= kTimedBytes;
  if (!is_again || slot.is_large) record(slot);
  if (!status.ok()) slot.execution.fail(std::move(status));
  running_.push_back(&slot);
  stirred_ = true;
}

// Takes a turn of the interface and advances all running operations. Returns true if any advanced.
bool Lane::advance_all() {
  take_turn();
  return advance_running();
}

// Takes a turn of the networks. Without networks there is no turn that could report news, so the
// executions look at shared memory every time.
void Lane::take_turn() {
  stirred_ |= !options_.has_networks || interface_->progress();
}

bool Lane::advance_running() {
  stirred_ = advance_steps();
  for (std::size_t i = 0; i < running_.size();) {
    const std::size_t before = running_.size();
    stirred_ |= advance(i);
    if (running_.size() == before) ++i;
  }
  return stirred_;
}

// Advances the hook and the steps. Returns true if any moved.
bool Lane::advance_steps() {
  return steps_.advance([this](const std::shared_ptr<Operation>& operation, const Status& status) {
    if (operation != nullptr) return end(operation, status);
    in_flight_.fetch_sub(1, std::memory_order_acq_rel);
  });
}

void Lane::run(OperationStep& step) {
  if (steps_.run_at_once(step)) return flush();
  // The pointer shares ownership with nobody: the caller keeps the step until it is over.
  add(std::shared_ptr<OperationStep>(std::shared_ptr<OperationStep>(), &step));
  stirred_ |= advance_steps();
  if (!step.is_over()) wait_until([&] { return step.is_over(); });
}

void Lane::begin(std::shared_ptr<OperationStep> step, std::shared_ptr<Operation> operation) {
  if (operation != nullptr) operation->enter(Operation::Phase::running);
  add(std::move(step), std::move(operation));
  stirred_ |= advance_steps();
}

void Lane::add(std::shared_ptr<OperationStep> step, std::shared_ptr<Operation> operation) {
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  steps_.add(std::move(step), std::move(operation));
  stirred_ = true;
}

void Lane::serve() {
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  thread_.call();
}

void Lane::end_serving() {
  in_flight_.fetch_sub(1, std::memory_order_relaxed);
}

// Advances the operation of running_[index]. If it is done, its slot is removed from running_.
// Returns true if it advanced.
bool Lane::advance(std::size_t index) {
  LaneSlot& slot = *running_[index];
  slot.execution.advance();
  if (slot.is_running()) return slot.execution.moved();
  running_[index] = running_.back();
  running_.pop_back();
  finish(slot);
  return true;
}

void Lane::advance_once(LaneSlot& slot) {
  take_turn();
  slot.execution.advance();
}

void Lane::finish(LaneSlot& slot) {
  if (slot.bound_call.call.checks_unmatched && slot.execution.status().ok()) {
    if (Status strays = observer_.check_unmatched(slot); !strays.ok())
      slot.execution.fail(std::move(strays));
  }
  const Code code = slot.execution.status().code();
  if (slot.execution.has_read_in_place() && (code == Code::ok || code == Code::mismatch)) {
    std::atomic_thread_fence(std::memory_order_acquire);  // what was read was read before
    if (Status told = observer_.check_sources(); !told.ok()) slot.execution.fail(std::move(told));
  }
  const Status& status = slot.execution.status();
  if (trace_.on())
    trace_.add(Event::operation_end, traced_number(slot), status.rank(),
               static_cast<std::uint16_t>(status.code()));
  if (slot.flight != FlightRing::kNoPlace)
    flight_.end(std::exchange(slot.flight, FlightRing::kNoPlace), status.code());
  ++completed_;
  if (!status.ok()) observer_.operation_failed(status, slot.execution.touched_output());
  admission_.ended(slot);
  if (slot.operation == nullptr) return;
  end(std::exchange(slot.operation, nullptr), failure_.ok() ? status : failure_);
}

// Takes a last turn before the caller does something else. Posted notices leave, and the peers
// learn what this rank has released.
void Lane::flush() {
  if (options_.has_networks && !interface_->flushed()) take_turn();
}

void Lane::leave() {
  advance_all();
  begin_ready();
  flush();
  if (options_.has_thread) thread_.call();
}

void Lane::record(LaneSlot& slot) {
  slot.flight = flight_.begin(slot.is_large, [&slot](FlightRecord& record) {
    fill_record(slot.bound_call.call, slot.is_of_some_ranks, record);
    record.number = slot.number;
  });
}

// For the flight recorder: what runs now is not over at once.
void Lane::note_waiting() {
  for (LaneSlot* slot : running_) {
    if (slot->flight == FlightRing::kNoPlace) record(*slot);
    flight_.waits(slot->flight);
  }
}

// Whether an operation waits for a rank that is bound to this core. Polling is then in vain until
// that rank has run.
bool Lane::needs_core() {
  return std::ranges::any_of(running_,
                             [](LaneSlot* slot) { return slot->execution.waits_for_this_core(); });
}

// Drives the lane until done() holds. The token is held on entry and on return. In between it is
// lent to other threads that want it. A sleep ends at `end_ns`, at which done() may begin to hold.
template <typename Done>
void Lane::drive(const WaitPolicy& policy, Done&& done, std::int64_t end_ns) {
  Backoff backoff(policy);
  bool core_wanted = false;
  int turns = 0;  // in which nothing moved
  while (true) {
    take_turn();
    const bool looks = stirred_;  // without news, no operation that could not advance can advance
    if (looks) {
      advance_running();
    } else {
      stirred_ |= advance_steps();  // a step may wait for a time
    }
    if (options_.home != nullptr) take_posted();
    begin_ready();
    if (done()) return flush();
    if (stirred_) {
      backoff.reset();
      turns = 0;
      continue;
    }
    if (++turns == kBriefTurns) note_waiting();
    if (token_.wanted()) {
      flush();
      token_.lend();
      if (done()) return;
    }
    const bool idle = running_.empty() && steps_.is_idle();
    if (looks) core_wanted = needs_core();
    switch (idle ? Backoff::Next::sleep : backoff.next(core_wanted)) {
      case Backoff::Next::again:
        break;
      case Backoff::Next::slow:
        observer_.check_liveness();
        break;
      case Backoff::Next::sleep:
        observer_.check_liveness();
        trace_.add(Event::sleep, 0);
        interface_->sleep(sleep_ns(idle, policy, end_ns), [&] {
          return advance_all() || done() || token_.wanted() ||
                 has_posted_.load(std::memory_order_acquire);
        });
        trace_.add(Event::wake, 0);
        stirred_ = true;
        break;
    }
  }
}

std::int64_t Lane::sleep_ns(bool is_idle, const WaitPolicy& policy, std::int64_t end_ns) const {
  const std::int64_t most = is_idle ? kIdleSleepNs : policy.sleep_ns;
  return std::clamp<std::int64_t>(steps_.next_ns(end_ns) - now_ns(), 0, most);
}

// drive() for a caller, which leaves unfinished operations to the thread when it returns. The count of
// callers changes only with the token held, so it needs no locked instruction, which would slow the hot
// path. The lane's thread only reads it.
template <typename Done>
void Lane::wait_until(Done&& done, std::int64_t end_ns) {
  const auto count = [this](int change) {
    waiters_.store(waiters_.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
  };
  count(1);
  drive(options_.policy, done, end_ns);
  count(-1);
  hand_over();
}

void Lane::hand_over() {
  waits_.store(waits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (!options_.has_thread) return;
  const bool is_flushed = !options_.has_networks || interface_->flushed();
  const bool is_done = in_flight_.load(std::memory_order_relaxed) == 0 && is_flushed;
  if (is_done && !begins_patrol()) return;
  // If the thread cannot be started, operations still advance in the next call of this context.
  if (const Status status = thread_.start(); !status.ok())
    return log(LogLevel::warning, status.to_string());
  if (patrols_) thread_.patrol();
  if (!is_done) thread_.call();
}

// Returns true once: when peers may need turns of this lane from now on.
bool Lane::begins_patrol() {
  if (patrols_ || !options_.has_networks) return false;
  patrols_ = interface_->answers_peers();
  return patrols_;
}

Status Lane::drive_to_end(std::shared_ptr<Operation> operation) {
  (void)drive_until_ns(*operation, kNoEnd);
  Status status = operation->status;
  // Another lane that has ended the last part may still hold the operation.
  if (!operation->is_in_parts) keep(std::move(operation));
  return status;
}

void Lane::repeat(LaneSlot& slot, std::shared_ptr<Operation> operation) {
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  operation->enter(Operation::Phase::running);
  slot.operation = std::move(operation);
  begin(slot, true);
}

Status Lane::repeat(LaneSlot& slot) {
  begin(slot, true);
  wait_until([&] { return !slot.is_running(); });
  return slot.execution.status().ok() ? Status() : failure_;
}

bool Lane::drive_until_ns(Operation& operation, std::int64_t end_ns) {
  const bool has_end = end_ns != kNoEnd;
  wait_until(
      [&] {
        return operation.done.load(std::memory_order_acquire) || (has_end && now_ns() >= end_ns);
      },
      end_ns);
  return operation.done.load(std::memory_order_acquire);
}

Status Lane::repeat_until_ns(LaneSlot& slot, std::int64_t end_ns, const std::shared_ptr<Lane>& self,
                             std::shared_ptr<Operation>& rest) {
  begin(slot, true);
  wait_until([&] { return !slot.is_running() || now_ns() >= end_ns; }, end_ns);
  if (!slot.is_running()) return slot.execution.status().ok() ? Status() : failure_;
  rest = new_operation(self);
  rest->enter(Operation::Phase::running);
  slot.operation = rest;
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  hand_over();
  return {};
}

void Lane::drive_until(const std::function<bool()>& done, std::int64_t end_ns) {
  wait_until(done, end_ns);
}

void Lane::drive_until_none_of_all(const std::function<bool()>& others_idle) {
  wait_until([&] {
    return !failure_.ok() ||
           (!admission_.has_waiting_in_order() &&
            std::ranges::all_of(running_, &LaneSlot::is_of_some_ranks) && others_idle());
  });
}

void Lane::drive_for_thread(const std::atomic<bool>& stopping) {
  token_.acquire();  // does not wake a caller that sleeps with the token: that caller drives
  const Hold hold(*this, std::adopt_lock);
  drive(options_.thread_policy, [&] {
    return stopping.load(std::memory_order_relaxed) ||
           (in_flight_.load(std::memory_order_relaxed) == 0 && interface_->flushed()) ||
           waiters_.load(std::memory_order_relaxed) != 0;
  });
  if (patrols_) observer_.hear_peers();
  if (begins_patrol()) thread_.patrol();
}

bool Lane::test(Operation& operation) {
  if (operation.done.load(std::memory_order_acquire)) return true;
  if (token_.try_acquire()) {
    const Hold hold(*this, std::adopt_lock);
    look();
  }
  return operation.done.load(std::memory_order_acquire);
}

void Lane::look() {
  if (!advance_all()) note_waiting();
  begin_ready();
  flush();
  if (const std::int64_t now = now_ns(); now - looked_ns_ >= kLookNs) {
    looked_ns_ = now;
    observer_.check_liveness();
  }
}

bool Lane::wait_until_ns(Operation& operation, std::int64_t end_ns) {
  if (operation.done.load(std::memory_order_acquire)) return true;
  const Hold hold(*this);
  return drive_until_ns(operation, end_ns);
}

void Lane::forget_bound() {
  last_ = nullptr;
  for (const auto& slot : admission_.slots()) slot->bound = 0;
}

void Lane::fail(const Status& status) {
  failure_ = status;
  for (LaneSlot* slot : running_) slot->execution.fail(failure_);
  for (const std::shared_ptr<Operation>& operation : admission_.withdraw())
    end(operation, failure_);
  steps_.fail(failure_);
}

void Lane::close(const std::function<void()>& last_words) {
  thread_.stop([this] { interface_->wake(); });
  if (!std::exchange(closed_, true)) {
    const Hold hold(*this);
    last_words();
    take_posted();
    advance_all();
    interface_->close();
    steps_.abandon(failure_);
    advance_steps();
  }
  callbacks_.stop();
}

Lane::Usage Lane::usage() const {
  return {completed_, allocations_ + scratch_.allocations() + admission_.allocations(),
          scratch_.bytes() + admission_.scratch_bytes()};
}

}  // namespace weft
