// lane_thread: when the thread of a lane drives it, and when it leaves that to callers.
#include "engine/lane/lane_thread.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace weft {
namespace {

// The grace: how long the thread waits for a caller before it drives the lane. A caller that starts
// an operation often starts another one or waits for it at once, and then drives the lane itself.
// The grace is about two wake-ups long. With a shorter one, thread and caller would hand the token
// to and fro for nothing.
constexpr std::chrono::microseconds kGrace(100);
// The longest grace. If a caller has waited during the grace, it will most likely wait again, so
// the next grace is twice as long. The thread then takes the core from the ranks that share it only
// a few hundred times a second.
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

// Returns when no wait of a caller has ended during a whole grace. Callers that only start
// operations do not count, because only the thread advances their operations.
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
