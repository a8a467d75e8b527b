// background calls: calls for which the kernel may take seconds, made beside the lane by a thread.
// Examples: destroying a queue pair whose packets wait for a neighbor; looking up a neighbor that
// does not answer. The thread exists while there is something to do. It does one call after the
// other, because slow ones wait for one and the same cable. Internal to the module.
//
// Threads: the owner's thread calls add(). A background call runs on the background thread, or in
// add() if no thread can be had.
#pragma once

#include <deque>
#include <functional>
#include <mutex>

#include "verbs/base/base.h"

namespace weft::ib {

class BackgroundCalls {
 public:
  BackgroundCalls() = default;
  BackgroundCalls(const BackgroundCalls&) = delete;
  BackgroundCalls& operator=(const BackgroundCalls&) = delete;
  // Waits for the call that was begun, and for all that `must` be done.
  ~BackgroundCalls();

  // must: is done in any case. may: is not begun any more after the destructor was called. again:
  // like may, and all others come before it.
  enum class Need { must, may, again };
  void add(Need need, std::function<void()> call);

 private:
  struct Call {
    Need need = Need::must;
    std::function<void()> run;
  };

  void work();
  void start();

  std::mutex mutex_;
  std::deque<Call> waiting_;
  bool works_ = false;  // the thread looks for more
  bool ends_ = false;
  Thread thread_;
};

}  // namespace weft::ib
