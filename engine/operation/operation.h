// operation: an operation from the call that asks for it to its end. Its phase says how far it is:
//
//   bound ──► queued ──► running ──► output ──► done
//
//   bound    A call is bound to it: plan, peers, weights and memory are known.
//   queued   It waits for its turn in the lane.
//   running  An execution or a step carries it out; one that runs in parts, until the last part ends.
//   output   It has run. Its output goes from the staging memory to the caller's, where there is some.
//   done     Its handles and its callbacks are told.
//
// A phase may be left out, and an operation that fails goes on to its end; enter() knows the moves
// that there are. The lane (engine/lane) moves an operation; nothing else ends one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/execute/execute.h"
#include "engine/operation/callbacks.h"
#include "engine/operation/prepared.h"
#include "engine/operation/step.h"

namespace weft {

class Lane;

// What stands between an operation and memory that it cannot use itself, for example that of a GPU.
// It brings the input before the operation runs, and takes the output away when it has ended.
//
// The holder of a lane's token calls ended() and what follows; the gate's functions may be called
// by several lanes at once.
class DeviceOperands : public InputGate {
 public:
  [[nodiscard]] bool has_input() { return input_state() >= State::arrived; }
  // Who combines large pieces; null: the lane's thread.
  [[nodiscard]] virtual Reducer* reducer() { return nullptr; }
  // The operation has ended. If it ended well, its output is on its way from now on.
  virtual void ended(const Status& status) = 0;
  // Whether nothing is on its way any more.
  [[nodiscard]] virtual bool is_over() = 0;
  // Waits until then; the way to a GPU is a copy, which is short.
  virtual void wait_until_over() = 0;
  // ok, or why the output did not arrive. Once it is over.
  [[nodiscard]] virtual Status output_status() = 0;
};

// Everything that an execution needs to start. The spans of `call` point to data that lives as long
// as the graph or the plan, or into the vectors here. They stay valid if a BoundCall is moved.
struct BoundCall {
  const Plan* plan = nullptr;
  std::uint16_t trace_name = 0;
  Call call;
  std::vector<PeerConnection*> in, out;
  std::vector<double> receive_weights, send_weights;
  std::vector<Range> given, given_input;
  std::unique_ptr<const Plan> own_plan;  // `plan`, if it was made for this call alone

  void clear();
};

// What a handle waits for where no lane has the operation to its end: it may run on one lane, fail there, and
// run again on another. The functions are those of Handle.
class Outcome {
 public:
  Outcome() = default;
  virtual ~Outcome() = default;
  Outcome(const Outcome&) = delete;
  Outcome& operator=(const Outcome&) = delete;
  [[nodiscard]] virtual bool test() = 0;
  virtual Status wait() = 0;
  [[nodiscard]] virtual bool wait_for(std::int64_t patience_ns) = 0;
  virtual Status then(std::function<void(const Status&)> call) = 0;
};

// A handle shares it with the lane.
//
// A large operation may run in parts on several lanes at once. Each other lane then has an Operation
// for its part, whose `whole` is the operation that was called. The operation ends when all its parts
// have ended.
//
// Threads: `done` may be read by any thread. `status` is valid once `done` is set. The rest belongs
// to the holder of the lane's token.
class Operation {
 public:
  enum class Phase : std::uint8_t { bound, queued, running, output, done };

  explicit Operation(std::weak_ptr<Lane> owner) : lane(std::move(owner)) {}
  // Of no lane: for a handle that asks the outcome.
  explicit Operation(std::shared_ptr<Outcome> asked) : outcome(std::move(asked)) {}

  [[nodiscard]] Phase phase() const { return phase_; }
  void enter(Phase next);
  // For another call. It must be done, or never have been queued.
  void begin_anew();

  [[nodiscard]] bool is_part() const { return whole != nullptr || is_in_parts; }
  // Notes that a part has ended. Returns true for the last one; part_failure is final then.
  bool end_part(const Status& part) {
    const std::lock_guard lock(mutex);
    if (part_failure.ok()) part_failure = part;
    return --parts == 0;
  }

  const std::weak_ptr<Lane> lane;            // locking it keeps the lane's context alive
  const std::shared_ptr<Outcome> outcome;    // null: the lane has the operation
  BoundCall bound_call;                      // until the operation runs
  bool has_handle = false;                   // set before the operation is queued
  std::shared_ptr<DeviceOperands> operands;  // the same; null: it uses the caller's memory
  std::shared_ptr<const void> keeps;         // memory that it uses, of the context's own
  std::atomic<bool> done{false};
  Status status;

  // Of a part on another lane than the first: the operation, and its number there.
  std::shared_ptr<Operation> whole;
  std::uint64_t number = 0;
  bool is_in_parts = false;  // of the operation; set before it is queued

  // Guarded by the mutex: the parts that have not ended, the first error of a part, and the
  // callbacks that wait for the end.
  std::mutex mutex;
  int parts = 0;
  Status part_failure;
  std::vector<std::function<void(const Status&)>> calls;

 private:
  Phase phase_ = Phase::bound;
};

}  // namespace weft
