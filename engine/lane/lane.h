// lane: everything that one thread drives. A lane has an interface, the executions of the
// operations that run on it, their scratch memory, a ring for the timeline, a thread, and a token.
// The holder of the token drives all of it. This is a caller that waits for its operation, and that
// then posts and polls directly, or else the lane's thread.
//
//   const Lane::Hold hold(lane);                    // takes the token
//   auto operation = lane.blocking_operation();     // the caller fills in its bound call
//   lane.admit(operation);                          // begins it now, or when its turn comes
//   Status done = lane.drive_to_end(operation);     // moves the lane's other operations, too
//
// Threads: functions marked «token» need a Hold. test(), wait_until_ns() and then() are for handles and
// take the token themselves; they may be called by any thread, and so may interface().wake(). A lane that
// has nothing to do uses no CPU.
//
// Lifetime: the lane owns its interface, and a context owns the lane. close() stops the thread and
// closes the interface; the destructor calls it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/lane/admission.h"
#include "engine/lane/lane_thread.h"
#include "engine/lane/place.h"
#include "engine/lane/steps.h"
#include "engine/membership/membership.h"
#include "engine/operation/operation.h"
#include "engine/trace/trace.h"
#include "verbs/progress/progress.h"

namespace weft {

// What a record says of a call, but its number and times.
void fill_record(const Call& call, bool is_of_some_ranks, FlightRecord& record);

// What a lane needs from the context that it belongs to. The holder of the token calls it.
class LaneObserver {
 public:
  virtual ~LaneObserver() = default;
  // Called about once per millisecond of waiting, never while data flows. Looks at rare events:
  // deaths, deadlines, questions of peers.
  virtual void check_liveness() = 0;
  // Called after an operation with Call::checks_unmatched has run in this slot. Returns an error if a
  // notice has arrived on its channel that belongs to no operation, because the ranks disagree about
  // one.
  virtual Status check_unmatched(const LaneSlot& slot) = 0;
  // Called after an operation has read memory of other ranks, before it ends well, or with a mismatch in
  // what was read. A rank tells that it has failed before its caller may change the memory, so an error that
  // has come means that what was read may not be what was sent.
  virtual Status check_sources() = 0;
  // Called in each turn of a patrol: hears what peers tell beside operations.
  virtual void hear_peers() = 0;
  // Called when an operation of the lane has failed. The observer may end the others by fail().
  virtual void operation_failed(const Status& status, bool touched_output) = 0;
};

struct LaneOptions {
  ExecutionOptions execution;  // the lane sets channel, ways, scratch and trace
  std::uint32_t channels = 8;  // operations of all ranks that run at once
  WaitPolicy policy;           // how a caller waits
  WaitPolicy thread_policy;    // how the thread waits
  bool has_networks = true;    // false: only shared memory, which needs no turn of progress()
  bool has_thread = true;      // false: operations move only while a caller waits or tests
  // Of a side lane, which has no callers: its thread runs parts of operations, from post(). `home` is the
  // lane that has cut them off, and that completes an operation when all its parts have ended. `connect`
  // replaces the peers of a part, which are the home lane's, by those of this lane.
  Lane* home = nullptr;
  std::function<Status(BoundCall& part)> connect;
  std::string thread_name = "weft-lane";
  LanePlace place;  // where the thread runs
  LogVoice voice;   // with which the lane logs
};

class Lane {
 public:
  static constexpr std::int64_t kNoEnd = std::numeric_limits<std::int64_t>::max();

  // The right to drive the lane, for as long as the guard lives. If the present holder sleeps with
  // the token, it is woken and lends it. What a holder logs has the lane's voice.
  class Hold {
   public:
    explicit Hold(Lane& lane) : scope_(lane.options_.voice), token_(lane.token_) {
      token_.acquire([&lane] { lane.interface_->wake(); });
    }
    // For a token that the caller has taken already.
    Hold(Lane& lane, std::adopt_lock_t) : scope_(lane.options_.voice), token_(lane.token_) {}
    ~Hold() { token_.release(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    const LogScope scope_;
    LaneToken& token_;
  };

  // `trace`, `membership` and `observer` must outlive the lane.
  Lane(const LaneOptions& options, std::unique_ptr<Interface> interface, TraceRing& trace,
       const Membership& membership, LaneObserver& observer);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  [[nodiscard]] Interface& interface() { return *interface_; }
  [[nodiscard]] LogVoice voice() const { return options_.voice; }
  [[nodiscard]] const LanePlace& place() const { return options_.place; }

  // Operations. All functions but new_operation(): token.
  // An operation for a started call, to be shared with its handle. `self` is a pointer to the lane
  // that keeps the lane's context alive.
  [[nodiscard]] static std::shared_ptr<Operation> new_operation(const std::shared_ptr<Lane>& self);
  // An operation for a blocking call: that of the last such call, to be used again, or a new one.
  // drive_to_end() and keep() give it back.
  [[nodiscard]] std::shared_ptr<Operation> blocking_operation();
  void keep(std::shared_ptr<Operation> operation) {
    operation->operands = nullptr;
    operation->keeps = nullptr;
    spare_ = std::move(operation);
  }
  // Begins the operation now, or when its turn comes.
  void admit(std::shared_ptr<Operation> operation);
  // To be called after admit() by a caller that does not wait: sends what was posted, and leaves
  // the rest to the thread.
  void leave();
  // Drives the lane until the blocking operation is done, and returns its status.
  Status drive_to_end(std::shared_ptr<Operation> operation);
  // Runs the operation that the slot ran last once more, perhaps with other weights, and waits for
  // its end. The slot must be next_slot(), free, and bound.
  Status repeat(LaneSlot& slot);
  // Begins it for a caller that does not wait.
  void repeat(LaneSlot& slot, std::shared_ptr<Operation> operation);
  // The same until `end_ns` at the latest. An operation that is not done then goes on, and
  // drive_until_ns() returns false.
  bool drive_until_ns(Operation& operation, std::int64_t end_ns);
  // A repeated operation that is not done at `end_ns` goes on as the operation that is put into
  // `rest`, of the lane `self`.
  Status repeat_until_ns(LaneSlot& slot, std::int64_t end_ns, const std::shared_ptr<Lane>& self,
                         std::shared_ptr<Operation>& rest);
  // Drives the lane until done() holds, which it does at `end_ns` at the latest.
  void drive_until(const std::function<bool()>& done, std::int64_t end_ns);
  // The same until no operation of all ranks is in flight and `others_idle()` holds, or the lane has failed.
  void drive_until_none_of_all(const std::function<bool()>& others_idle);
  // Starts the thread, if the lane has one.
  Status start_thread() { return options_.has_thread ? thread_.start() : Status(); }

  // Steps. token.
  // Runs a step to its end, while other work goes on. The step is the caller's.
  void run(OperationStep& step);
  // Begins a step. The operation, of which there may be none, ends with it. Without a caller that
  // waits, the lane's thread drives it, which must have been started.
  void begin(std::shared_ptr<OperationStep> step, std::shared_ptr<Operation> operation);
  // Adds a step, to be advanced at the next turn. A step may do so in its advance().
  void add(std::shared_ptr<OperationStep> step, std::shared_ptr<Operation> operation = nullptr);
  // From now on the thread, which must have been started, takes the turns of the interface even if
  // nothing is in flight, so that peers are served whose one-sided work needs this lane.
  void serve();
  // Takes back one serve().
  void end_serving();
  // From now on each turn also advances the hook; nullptr: none.
  void attend(ProgressHook* hook) { steps_.attend(hook); }
  // Ends an operation, for example one that the hook has carried out by others. Its handle and its
  // callbacks are told, at the latest when its output is where it belongs and its other parts have ended.
  void end(std::shared_ptr<Operation> operation, Status status);

  // Of a side lane, any thread: hands over a part of an operation, which the thread
  // begins after the parts that were posted before. The thread must have been started.
  void post(std::shared_ptr<Operation> part);
  // Any thread. Whether no operation is in flight; those that are posted count.
  [[nodiscard]] bool has_none_in_flight() const {
    return in_flight_.load(std::memory_order_acquire) == 0;
  }

  // For handles.
  bool test(Operation& operation);
  // Whether the operation is done at `end_ns` or before.
  bool wait_until_ns(Operation& operation, std::int64_t end_ns = kNoEnd);
  Status then(const std::shared_ptr<Operation>& operation,
              std::function<void(const Status&)> call) {
    return callbacks_.add(operation, std::move(call));
  }

  // Access for the observer. token.
  [[nodiscard]] Admission& admission() { return admission_; }
  [[nodiscard]] const std::vector<LaneSlot*>& running() const { return running_; }
  [[nodiscard]] bool is_idle() const {
    return running_.empty() && steps_.is_empty() && admission_.is_empty();
  }
  // The slot whose operation began last; nullptr: none.
  [[nodiscard]] const LaneSlot* last() const { return last_; }
  // No slot runs its last operation once more. Needed before plans are destroyed, and when the same
  // call would mean something else.
  void forget_bound();
  [[nodiscard]] TraceRing& trace() { return trace_; }
  // The latest operations; none of a lane that runs parts of them.
  [[nodiscard]] const FlightRing& flight() const { return flight_; }
  void recall_hook(FlightText& to) const { steps_.recall_pending(to); }
  // Takes a turn of the networks, and advances the operation of one slot.
  void advance_once(LaneSlot& slot);
  // Does what can be done now, for a caller that looks at the peers' messages itself.
  void look();
  // Makes the lane advance every operation once, even if the interface reports no progress. The
  // observer calls it when it may have learnt something that the interface does not report.
  void force_progress() { stirred_ = true; }

  // Fails the lane for good: all operations end with this status, and so does every later one.
  // token.
  void fail(const Status& status);
  // ok: it has not failed.
  [[nodiscard]] const Status& failure() const { return failure_; }

  // Stops the thread. Then, with the token, calls `last_words`, sends the notices that it posted,
  // and closes the interface. At last waits for the callbacks of operations that are done.
  void close(const std::function<void()>& last_words);

  struct Usage {
    std::uint64_t completed = 0;  // operations
    std::uint64_t allocations = 0;
    std::size_t scratch_bytes = 0;
  };
  // token.
  [[nodiscard]] Usage usage() const;
  // How private memory travels, and why. With the token held.
  [[nodiscard]] const PrivateWays& ways() const { return ways_; }

 private:
  class TakeOutput;

  void begin(LaneSlot& slot, bool is_again);
  void begin_ready();
  void take_posted();
  bool advance_all();
  void take_turn();
  bool advance_running();
  bool advance_steps();
  [[nodiscard]] bool begins_patrol();
  [[nodiscard]] std::int64_t sleep_ns(bool is_idle, const WaitPolicy& policy,
                                      std::int64_t end_ns) const;
  bool advance(std::size_t index);
  void finish(LaneSlot& slot);
  void flush();
  bool needs_core();
  void note_waiting();
  void record(LaneSlot& slot);
  void hand_over();
  void drive_for_thread(const std::atomic<bool>& stopping);
  template <typename Done>
  void drive(const WaitPolicy& policy, Done&& done, std::int64_t end_ns = kNoEnd);
  template <typename Done>
  void wait_until(Done&& done, std::int64_t end_ns = kNoEnd);

  const LaneOptions options_;
  const std::unique_ptr<Interface> interface_;
  TraceRing& trace_;
  const Membership& membership_;
  LaneObserver& observer_;
  LaneToken token_;

  // Everything from here to the threads belongs to the token's holder.
  // Shared by all executions; they must outlive them.
  PrivateWays ways_;
  ScratchPool scratch_;
  Admission admission_;
  FlightRing flight_;
  std::vector<LaneSlot*> running_;
  Steps steps_;
  bool stirred_ = false;  // a running operation may be able to advance
  LaneSlot* last_ = nullptr;
  std::shared_ptr<Operation> spare_;
  std::uint64_t completed_ = 0;
  std::uint64_t allocations_ = 0;
  bool patrols_ = false;        // LaneThread::patrol()
  std::int64_t looked_ns_ = 0;  // when look() last called check_liveness()
  Status failure_;
  bool closed_ = false;

  // Written by the holder of the token, read by the thread without it.
  std::atomic<int> waiters_{0};          // callers that drive the lane
  std::atomic<std::uint32_t> waits_{0};  // waits of callers that have ended
  std::atomic<int> in_flight_{0};        // operations that were admitted or posted, and not done

  std::mutex post_mutex_;
  std::vector<std::shared_ptr<Operation>> posted_;  // guarded by the mutex
  std::atomic<bool> has_posted_{false};

  Callbacks callbacks_;
  LaneThread thread_;
};

}  // namespace weft
