// Errands: calls for which the kernel may take seconds, made beside the lane by a thread. Examples:
// destroying a queue pair whose packets wait for a neighbor; looking up a neighbor that does not
// answer. The thread exists while there is something to do. It does one errand after the other,
// because slow ones wait for one and the same cable. Internal to the module.
//
// Threads: the owner's thread calls add(). An errand runs on the thread of the errands, or in add()
// if no thread can be had.
#pragma once

#include <deque>
#include <functional>
#include <mutex>

#include "verbs/base/base.h"

namespace weft::ib {

class Errands {
 public:
  Errands() = default;
  Errands(const Errands&) = delete;
  Errands& operator=(const Errands&) = delete;
  // Waits for the errand that was begun, and for all that `must` be done.
  ~Errands();

  // must: is done in any case. may: is not begun any more after the destructor was called. again:
  // like may, and all others come before it.
  enum class Need { must, may, again };
  void add(Need need, std::function<void()> errand);

 private:
  struct Errand {
    Need need = Need::must;
    std::function<void()> run;
  };

  void work();
  void start();

  std::mutex mutex_;
  std::deque<Errand> waiting_;
  bool works_ = false;  // the thread looks for more
  bool ends_ = false;
  Thread thread_;
};

}  // namespace weft::ib
