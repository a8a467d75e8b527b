// Errands: what the kernel may take seconds for, done beside the lane by a thread that is there
// while there is something to do: destroying a queue pair whose packets wait for a neighbor,
// looking up a neighbor who does not answer. One after the other: what is slow here waits for one
// and the same cable. Internal to the module.
//
// Threads: the owner's adds; an errand runs on the other one, or in add() where no thread can be
// had.
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
  // Waits for those that were begun, and for all that had to be done.
  ~Errands();

  // `may`: the end leaves it out; `again`: so it does, and others come before it.
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
