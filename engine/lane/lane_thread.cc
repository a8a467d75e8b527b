// lane_thread: when the thread of a lane runs, and when it lets callers go on.
#include "engine/lane/lane_thread.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace weft {
namespace {

// A caller that starts an operation often starts another one or waits for it at once, and then
// drives the lane itself. The grace is as long as two wake-ups: a thread that comes sooner takes
// turns with its caller for nothing.
constexpr std::chrono::microseconds kGrace(100);
// A caller that has waited again during the grace will most likely come once more. The thread then
// looks less and less often, at most after this time, and so takes a core from the ranks that share
// it only a few hundred times a second.
constexpr std::chrono::microseconds kLongestGrace(3200);

}  // namespace

Status LaneThread::start() {
  const std::lock_guard lock(mutex_);
  if (thread_.joinable()) return {};
  WEFT_ASSIGN(thread_, start_thread("weft-lane", [this] { loop(); }));
  return {};
}

void LaneThread::call() {
  const std::lock_guard lock(mutex_);
  if (stopping_ || std::exchange(called_, true)) return;
  wanted_.notify_one();
}

void LaneThread::loop() {
  if (Status status = bind_thread(place_); !status.ok()) log(LogLevel::warning, status.to_string());
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wanted_.wait(lock, [this] { return called_ || stopping_; });
      let_callers_go_on(lock);
      called_ = false;
      if (stopping_) return;
    }
    if (work_.has_waiter()) continue;  // the waiter calls the thread again when it goes
    work_.drive(stopping_);
  }
}

// Waits until no caller has waited for a grace. Callers that only start operations do not count:
// nobody but the thread moves their operations on.
void LaneThread::let_callers_go_on(std::unique_lock<std::mutex>& lock) {
  std::uint32_t seen = 0;
  std::chrono::microseconds grace = kGrace;
  do {
    seen = work_.waits();
    wanted_.wait_for(lock, grace, [this] { return stopping_.load(); });
    grace = std::min(2 * grace, kLongestGrace);
  } while (!stopping_ && work_.waits() != seen);
}

void LaneThread::stop(const std::function<void()>& wake) {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wanted_.notify_one();
  }
  wake();
  thread_.join();
}

}  // namespace weft
