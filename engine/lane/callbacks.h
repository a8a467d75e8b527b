// callbacks: the thread that runs the callbacks of operations. It starts with the first callback,
// and no callback ever runs on a thread that moves bytes.
//
// A callback is the user's code. One that throws is caught, and its exception is logged as an error.
// One that destroys the context whose thread runs it is fine: the thread then goes on alone until the
// callbacks of all operations that have ended have run.
//
// Threads: every function may be called by any thread.
#pragma once

#include <functional>
#include <memory>

#include "engine/lane/operation.h"
#include "verbs/base/base.h"

namespace weft {

class Callbacks {
 public:
  Callbacks();
  ~Callbacks();
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  // Runs `call` on the thread once the operation is done, at once if it is done already. An error,
  // and no call, where the thread cannot be started, and `closed` after stop().
  Status add(const std::shared_ptr<PendingOperation>& operation,
             std::function<void(const Status&)> call);
  // The operation has this end: handles see it, and its callbacks are handed to the thread.
  void complete(const std::shared_ptr<PendingOperation>& operation, Status status);
  // Waits until the callbacks of all operations that are done have run, unless a callback calls.
  void stop();

 private:
  struct Queue;
  static void run(const std::shared_ptr<Queue>& queue);

  std::shared_ptr<Queue> queue_;  // shared with the thread, which may outlive this object
};

}  // namespace weft
