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

// Everything that an execution needs to start. The spans of `call` point to data that lives as long
// as the graph or the plan, or into the vectors here. They stay valid if an Invocation is moved.
struct Invocation {
  const Plan* plan = nullptr;
  std::uint16_t trace_name = 0;
  Call call;
  std::vector<Contact*> in, out;
  std::vector<double> receive_weights, send_weights;
  std::vector<Range> given, given_input;

  void clear();
};

// An operation that was called. A handle shares it with the lane.
//
// Threads: `done` may be read by any thread. `status` is valid once `done` is set. The rest belongs
// to the holder of the lane's token.
class PendingOperation {
 public:
  explicit PendingOperation(std::weak_ptr<Lane> owner) : lane(std::move(owner)) {}

  const std::weak_ptr<Lane> lane;  // locking it keeps the lane's context alive
  Invocation invocation;           // until the operation begins
  bool has_handle = false;         // set before the operation is admitted
  std::atomic<bool> done{false};
  Status status;

  // Callbacks that wait for the end, guarded by the mutex.
  std::mutex mutex;
  std::vector<std::function<void(const Status&)>> calls;
};

}  // namespace weft
