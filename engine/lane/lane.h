// lane: what one thread drives. A lane has an interface, the executions of the operations that run
// on it, their scratch memory, a ring for the timeline, a thread, and a token. Whoever holds the token
// drives everything: a caller that waits for its operation, who then posts and polls directly, or else
// the lane's thread.
//
//   const Lane::Hold hold(lane);                 // takes the token
//   auto operation = lane.new_operation();       // … its invocation is filled by the caller
//   lane.admit(operation);                       // begins now, or when it is its turn
//   Status done = lane.drive_to_end(*operation); // the lane's other operations move on, too
//
// Threads: functions marked «token» need a Hold. test(), wait() and then() are for handles and take
// the token themselves; they may be called by any thread, and so may wake(). A lane that has nothing
// to do uses no CPU.
//
// Lifetime: the lane owns its interface, and a context owns the lane. close() ends everything; the
// destructor closes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/lane/admission.h"
#include "engine/lane/callbacks.h"
#include "engine/lane/lane_thread.h"
#include "engine/lane/operation.h"
#include "engine/lane/place.h"
#include "engine/membership/membership.h"
#include "engine/trace/trace.h"
#include "verbs/progress/progress.h"

namespace weft {

// The context that a lane belongs to, as the lane sees it. Called by the holder of the token.
class LaneObserver {
 public:
  virtual ~LaneObserver() = default;
  // Time to look at what is unlikely: deaths, deadlines, peers that ask. About once per millisecond
  // of waiting, never while data flows.
  virtual void look_around() = 0;
  // An operation that looks for strays has run: whether notices are there that belong to no
  // operation, because the ranks disagree about one.
  virtual Status look_for_strays() = 0;
  // An operation of the lane ended badly. The observer decides what becomes of the others: fail().
  virtual void operation_failed(const Status& status, bool touched_output) = 0;
};

struct LaneOptions {
  ExecutionOptions execution;  // the lane sets channel, scratch and trace
  std::uint32_t channels = 8;  // operations of all ranks that run at once
  WaitPolicy policy;
  bool has_networks = true;  // false: shared memory alone, which needs no turn of progress()
  bool has_thread = true;    // false: operations move only while a caller waits or tests
  LanePlace place;           // of the thread
  LogVoice voice;            // of what is logged for the lane
};

class Lane {
 public:
  // The right to drive the lane, for as long as the guard lives. Whoever sleeps with the token is
  // woken and lends it. What the holder logs is said by the lane's voice.
  class Hold {
   public:
    explicit Hold(Lane& lane) : scope_(lane.options_.voice), token_(lane.token_) {
      token_.acquire([&lane] { lane.interface_->wake(); });
    }
    // Of a token that the caller has taken already.
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
  void wake() { interface_->wake(); }

  // Operations. token.
  // A started operation; its handle shares it. `self` owns the lane, perhaps with more.
  [[nodiscard]] static std::shared_ptr<PendingOperation> new_operation(
      const std::shared_ptr<Lane>& self);
  // The operation of a blocking call: the last one's, to be used again, or a new one. Given back by
  // drive_to_end() or keep().
  [[nodiscard]] std::shared_ptr<PendingOperation> blocking_operation();
  void keep(std::shared_ptr<PendingOperation> operation) { spare_ = std::move(operation); }
  // Begins the operation now or when it is its turn.
  void admit(std::shared_ptr<PendingOperation> operation);
  // What admit() started may leave: posted notices go out, and the thread goes on with the rest.
  void leave();
  // Drives the lane until the blocking operation is done; its status.
  Status drive_to_end(std::shared_ptr<PendingOperation> operation);
  // Runs once more what the slot ran last, with other weights perhaps, to its end. Only on
  // next_slot(), when it is free.
  Status repeat(LaneSlot& slot);
  // Drives the lane until no operation of all ranks is in flight, or the lane has failed.
  void drive_until_none_of_all();
  // Starts the thread, if the lane has one.
  Status start_thread() { return options_.has_thread ? thread_.start() : Status(); }

  // For handles.
  bool test(PendingOperation& operation);
  Status wait(PendingOperation& operation);
  Status then(const std::shared_ptr<PendingOperation>& operation,
              std::function<void(const Status&)> call) {
    return callbacks_.add(operation, std::move(call));
  }

  // What runs, for the observer. token.
  [[nodiscard]] Admission& admission() { return admission_; }
  [[nodiscard]] const std::vector<LaneSlot*>& running() const { return running_; }
  [[nodiscard]] bool is_idle() const { return running_.empty() && admission_.is_empty(); }
  // The slot that began last; nullptr: none.
  [[nodiscard]] const LaneSlot* last() const { return last_; }
  void forget_last() { last_ = nullptr; }  // its plan goes
  [[nodiscard]] TraceRing& trace() { return trace_; }
  // Lets the network's arrivals in, and moves the operation of one slot.
  void advance_once(LaneSlot& slot);
  // What the observer learnt does not show as progress of the interface: the next turn looks at
  // every operation.
  void stir() { stirred_ = true; }

  // Failure is for good: operations end with it, and later ones are not admitted. token.
  void fail(const Status& status);
  [[nodiscard]] bool has_failed() const { return failed_; }
  [[nodiscard]] const Status& failure() const { return failure_; }
  // Whether an operation that runs may have written to its output.
  [[nodiscard]] bool touches_output() const;

  // Ends the thread; then, with the token, whatever `last_words` posts leaves and the interface is
  // closed; callbacks of operations that are done still run.
  void close(const std::function<void()>& last_words);

  // token.
  [[nodiscard]] std::uint64_t completed() const { return completed_; }
  [[nodiscard]] std::uint64_t allocations() const;
  [[nodiscard]] std::size_t scratch_bytes() const;

 private:
  class Waiting;

  void begin(LaneSlot& slot, bool is_again);
  void begin_ready();
  bool advance_all();
  void take_turn();
  bool advance_running();
  bool advance(std::size_t index);
  void finish(LaneSlot& slot);
  void flush();
  bool needs_core();
  void hand_over();
  void drive_for_thread(const std::atomic<bool>& stopping);
  template <typename Done>
  void drive(Done&& done);
  template <typename Done>
  void wait_until(Done&& done);

  const LaneOptions options_;
  const std::unique_ptr<Interface> interface_;
  TraceRing& trace_;
  const Membership& membership_;
  LaneObserver& observer_;
  LaneToken token_;

  // Everything from here to the threads belongs to the token's holder.
  ScratchPool scratch_;  // of all executions, which it outlives
  Admission admission_;
  std::vector<LaneSlot*> running_;
  bool stirred_ = false;  // an operation that runs may have a step to do
  LaneSlot* last_ = nullptr;
  std::shared_ptr<PendingOperation> spare_;
  std::uint64_t completed_ = 0;
  std::uint64_t allocations_ = 0;
  std::int64_t looked_ns_ = 0;  // when test() last had the observer look around
  bool failed_ = false;
  Status failure_;
  bool closed_ = false;

  // Callers that drive the lane. Written by the token's holder, read by the thread.
  std::atomic<int> waiters_{0};
  std::atomic<std::uint32_t> waits_{0};  // that have ended
  std::atomic<int> in_flight_{0};        // operations admitted and not done

  Callbacks callbacks_;
  LaneThread thread_;
};

}  // namespace weft
