// operation: an operation on its way through a lane, from the call that asked for it to its end.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/execute/execute.h"

namespace weft {

class Lane;

// What stands between an operation and memory that it cannot use itself, for example that of a GPU.
// It brings the input before the operation runs, and takes the output away when it has ended.
//
// The holder of a lane's token calls ended() and what follows; the gate's functions may be called
// by several lanes at once.
class OperandStage : public InputGate {
 public:
  // Who combines large pieces; null: the lane's thread.
  [[nodiscard]] virtual Combiner* combiner() { return nullptr; }
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
// as the graph or the plan, or into the vectors here. They stay valid if an Invocation is moved.
struct Invocation {
  const Plan* plan = nullptr;
  std::uint16_t trace_name = 0;
  Call call;
  std::vector<Contact*> in, out;
  std::vector<double> receive_weights, send_weights;
  std::vector<Range> given, given_input;
  std::unique_ptr<const Plan> own_plan;  // `plan`, if it was made for this call alone

  void clear();
};

// An operation that was called. A handle shares it with the lane.
//
// A large operation may run in parts on several lanes at once. Each other lane then has a
// PendingOperation for its part, whose `whole` is the operation that was called. The operation ends
// when all its parts have ended.
//
// Threads: `done` may be read by any thread. `status` is valid once `done` is set. The rest belongs
// to the holder of the lane's token.
class PendingOperation {
 public:
  explicit PendingOperation(std::weak_ptr<Lane> owner) : lane(std::move(owner)) {}

  // Notes that a part has ended. Returns true for the last one; part_failure is final then.
  bool end_part(const Status& part) {
    const std::lock_guard lock(mutex);
    if (part_failure.ok()) part_failure = part;
    return --parts == 0;
  }

  const std::weak_ptr<Lane> lane;       // locking it keeps the lane's context alive
  Invocation invocation;                // until the operation begins
  bool has_handle = false;              // set before the operation is admitted
  std::shared_ptr<OperandStage> stage;  // the same; null: the operation uses the caller's memory
  std::shared_ptr<const void> keeps;    // memory that it uses, of the context's own
  std::atomic<bool> done{false};
  Status status;

  // Of a part on another lane than the first: the operation, and its number there.
  std::shared_ptr<PendingOperation> whole;
  std::uint64_t number = 0;
  bool is_in_parts = false;  // of the operation; set before it is admitted

  // Guarded by the mutex: the parts that have not ended, the first error of a part, and the
  // callbacks that wait for the end.
  std::mutex mutex;
  int parts = 0;
  Status part_failure;
  std::vector<std::function<void(const Status&)>> calls;
};

}  // namespace weft
