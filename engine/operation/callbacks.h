// callbacks: the thread that runs the callbacks of operations. The thread starts with the first
// callback. No callback runs on a lane's thread.
//
// A callback is the user's code. If it throws, the exception is logged as an error. A callback may
// destroy the context whose thread runs it. The thread then continues without its context until the
// callbacks of all operations that have ended have run.
//
// Threads: every function may be called by any thread.
#pragma once

#include <functional>
#include <memory>

#include "verbs/base/base.h"

namespace weft {

class Operation;

class Callbacks {
 public:
  Callbacks();
  ~Callbacks();
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  // Runs `call` on the thread once the operation is done, at once if it is done already. If the
  // thread cannot be started, an error is returned and `call` is not run; the same after stop(),
  // with `closed`.
  Status add(const std::shared_ptr<Operation>& operation, std::function<void(const Status&)> call);
  // Ends the operation with `status`: its handles see it, and its callbacks are queued for the
  // thread.
  void complete(const std::shared_ptr<Operation>& operation, Status status);
  // Waits until the callbacks of all operations that are done have run. Does not wait if a callback
  // is the caller.
  void stop();

 private:
  struct Queue;
  static void run(const std::shared_ptr<Queue>& queue);

  std::shared_ptr<Queue> queue_;  // shared with the thread, which may outlive this object
};

}  // namespace weft
