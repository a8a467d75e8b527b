// lane_thread: when the thread of a lane drives it, and when it leaves that to callers.
#include "engine/lane/lane_thread.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace weft {
namespace {

// The longest grace. If a caller has waited during the grace, it will most likely wait again, so
// the next grace is twice as long. The thread then takes the core from the ranks that share it only
// a few hundred times a second.
constexpr std::chrono::microseconds kLongestGrace(3200);

}  // namespace

Status LaneThread::start() {
  const std::lock_guard lock(mutex_);
  if (thread_.joinable()) return {};
  if (timer_.get() < 0) timer_ = Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  if (timer_.get() < 0) return system_error("timerfd_create", errno);
  WEFT_ASSIGN(thread_, start_thread(work_.name.c_str(), [this] { loop(); }));
  return {};
}

void LaneThread::call() {
  const std::lock_guard lock(mutex_);
  if (stopping_ || std::exchange(called_, true)) return;
  seen_ = work_.waits();
  grace_ = work_.grace;
  set_timer(grace_);
}

void LaneThread::patrol() {
  const std::lock_guard lock(mutex_);
  if (stopping_ || std::exchange(patrols_, true)) return;
  if (!called_) set_timer(kPatrol);
}

void LaneThread::set_timer(std::chrono::nanoseconds after) const {
  itimerspec when{};
  when.it_value.tv_nsec = std::max<std::int64_t>(after.count(), 1);  // 0 would stop the timer
  if (patrols_) when.it_interval.tv_nsec = std::chrono::nanoseconds(kPatrol).count();
  (void)::timerfd_settime(timer_.get(), 0, &when, nullptr);  // fails for invalid values only
}

void LaneThread::sleep() const {
  std::uint64_t expirations = 0;
  while (::read(timer_.get(), &expirations, sizeof expirations) < 0 && errno == EINTR) {
  }
}

void LaneThread::loop() {
  if (Status status = bind_thread(place_); !status.ok()) log(LogLevel::warning, status.to_string());
  while (!stopping_) {
    sleep();
    if (stopping_ || lets_callers_go_on()) continue;
    if (work_.has_waiter()) continue;  // the waiter calls the thread again when it goes
    work_.drive(stopping_);
  }
}

// Whether the thread has nothing to do, or a wait of a caller has ended during the grace; it then
// sleeps for another grace. Callers that only start operations do not count, because only the
// thread advances their operations.
bool LaneThread::lets_callers_go_on() {
  const std::lock_guard lock(mutex_);
  if (!called_) return !patrols_;
  const std::uint32_t waits = work_.waits();
  called_ = waits != std::exchange(seen_, waits);
  if (!called_) return false;
  grace_ = std::min(2 * grace_, kLongestGrace);
  set_timer(grace_);
  return true;
}

void LaneThread::stop(const std::function<void()>& wake) {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (timer_.get() >= 0) set_timer(std::chrono::nanoseconds(0));
  }
  wake();
  thread_.join();
}

}  // namespace weft
