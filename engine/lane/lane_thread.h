// lane_thread: the thread of a lane. It drives the lane while operations are in flight and no
// caller waits. It sleeps while nothing is in flight, and while a caller waits, because that caller
// drives the lane.
//
// The thread does not begin at once. A caller that starts an operation often starts another one or
// waits for it soon, and then drives the lane itself. The thread therefore sleeps on a timer, which
// call() sets. Setting a timer costs a caller 1 us; waking a thread on another core costs it 35 us
// in a virtual machine.
//
// If peers may need a turn of a lane that has nothing to do, the thread patrols: it drives the lane
// for a turn now and then. What the last operation sent may have been lost with a path that the peer
// has given up since, and the caller may be busy elsewhere for long.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "engine/lane/place.h"
#include "verbs/base/base.h"

namespace weft {

// The functions of the lane that the thread calls, and how it is called.
struct LaneWork {
  std::string name;                      // for the kernel, up to 15 characters
  std::chrono::microseconds grace;       // how long it sleeps after call(); 0: begins at once
  std::function<bool()> has_waiter;      // whether a caller drives the lane now
  std::function<std::uint32_t()> waits;  // how many waits of callers have ended so far
  // Drives the lane until nothing is left to do, a caller waits, or `stopping` is set.
  std::function<void(const std::atomic<bool>& stopping)> drive;
};

class LaneThread {
 public:
  // How long the thread of a lane with callers waits for one of them before it drives the lane. It
  // is about two wake-ups long. With less, thread and caller would hand the token to and fro for
  // nothing.
  static constexpr std::chrono::microseconds kGrace{100};
  // The time between two turns of a patrol. A peer waits so long for an answer that nobody was ready
  // to give. More turns would cost an idle rank too much: in an emulated processor ten in a second
  // took 1.5% of a core.
  static constexpr std::chrono::milliseconds kPatrol{500};

  LaneThread(LaneWork work, LanePlace place) : work_(std::move(work)), place_(std::move(place)) {}
  ~LaneThread() { stop(); }
  LaneThread(const LaneThread&) = delete;
  LaneThread& operator=(const LaneThread&) = delete;

  // Starts the thread if it does not run yet. Returns an error if the kernel refuses a thread.
  Status start();
  // Makes the thread drive the lane soon, because something is in flight and no caller waits for
  // it. The thread must have been started.
  void call();
  // Makes the thread drive the lane every kPatrol from now on, called or not. It must have been
  // started.
  void patrol();
  // Ends the thread. `wake` wakes a thread that sleeps inside drive(), so that it sees `stopping`.
  void stop(const std::function<void()>& wake = [] {});

 private:
  void loop();
  void sleep() const;
  bool lets_callers_go_on();
  void set_timer(std::chrono::nanoseconds after) const;

  const LaneWork work_;
  const LanePlace place_;
  Fd timer_;  // the thread reads it, and so sleeps until it expires
  std::mutex mutex_;
  // Guarded by the mutex.
  bool called_ = false;
  bool patrols_ = false;
  std::uint32_t seen_ = 0;  // waits of callers that had ended when the timer was set
  std::chrono::microseconds grace_{0};

  std::atomic<bool> stopping_{false};
  Thread thread_;
};

}  // namespace weft
