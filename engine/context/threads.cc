// The context's threads, started when they are first needed: the lane's, which moves bytes while
// nobody waits, and the completion thread, which runs callbacks.
#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/context/core.h"

namespace weft {
namespace {

// Who starts an operation often starts another or waits for it at once, and drives the lane itself
// meanwhile. Two wake-ups long: a thread that comes sooner takes turns with its caller for nothing.
constexpr std::chrono::microseconds kGrace(100);
// Who has waited again meanwhile will most likely come once more: then the thread looks less and
// less often, after at most as long as the callers have waited so far, and takes a core from the
// ranks that share it a few hundred times a second.
constexpr std::chrono::microseconds kLongestGrace(3200);

}  // namespace

void Context::Core::wake_thread() {
  if (config_.progress != ProgressMode::thread) return;
  const std::lock_guard lock(thread_mutex_);
  if (stopping_ || std::exchange(thread_called_, true)) return;
  if (!lane_thread_.joinable()) lane_thread_ = std::thread([this] { lane_loop(); });
  thread_wanted_.notify_one();
}

// Sleeps while nothing is in flight or waits to go out, and while a caller waits: that caller
// drives the lane.
void Context::Core::lane_loop() {
  const LogScope scope(voice_);
  if (Status status = bind_thread(place_); !status.ok()) log(LogLevel::warning, status.to_string());
  while (true) {
    {
      std::unique_lock lock(thread_mutex_);
      thread_wanted_.wait(lock, [this] { return thread_called_ || stopping_; });
      let_callers_go_on(lock);
      thread_called_ = false;
      if (stopping_) return;
    }
    if (waiters_.load(std::memory_order_relaxed) != 0) continue;  // calls again when it goes
    // Asked with the token held.
    const auto relieved = [this] {
      return stopping_.load(std::memory_order_relaxed) ||
             (in_flight_.load(std::memory_order_relaxed) == 0 && interface_->flushed()) ||
             waiters_.load(std::memory_order_relaxed) != 0;
    };
    token_.acquire();
    drive_until_relieved(relieved);
    token_.release();
  }
}

// Until no caller has waited for a grace. Those that only start operations do not count: nobody but
// the thread moves them on.
void Context::Core::let_callers_go_on(std::unique_lock<std::mutex>& lock) {
  std::uint32_t seen = 0;
  std::chrono::microseconds grace = kGrace;
  do {
    seen = waits_.load(std::memory_order_relaxed);
    thread_wanted_.wait_for(lock, grace, [this] { return stopping_.load(); });
    grace = std::min(2 * grace, kLongestGrace);
  } while (!stopping_ && waits_.load(std::memory_order_relaxed) != seen);
}

void Context::Core::completion_loop() {
  std::unique_lock lock(completion_mutex_);
  while (true) {
    completion_wanted_.wait(
        lock, [this] { return completion_stopping_ || !completed_operations_.empty(); });
    if (completed_operations_.empty()) return;
    const std::shared_ptr<PendingOperation> operation = std::move(completed_operations_.front());
    completed_operations_.pop_front();
    lock.unlock();
    std::vector<std::function<void(const Status&)>> calls;
    {
      const std::lock_guard guard(operation->mutex);
      calls.swap(operation->calls);
    }
    for (const auto& call : calls) call(operation->status);
    lock.lock();
  }
}

void Context::Core::then(const std::shared_ptr<PendingOperation>& operation,
                         std::function<void(const Status&)> call) {
  {
    const std::lock_guard lock(operation->mutex);
    operation->calls.push_back(std::move(call));
  }
  const std::lock_guard lock(completion_mutex_);
  if (!completion_thread_.joinable())
    completion_thread_ = std::thread([this] { completion_loop(); });
  if (!operation->done.load(std::memory_order_acquire)) return;
  completed_operations_.push_back(operation);
  completion_wanted_.notify_one();
}

void Context::Core::stop_lane_thread() {
  {
    const std::lock_guard lock(thread_mutex_);
    stopping_ = true;
    thread_wanted_.notify_one();
  }
  if (interface_) interface_->wake();
  if (lane_thread_.joinable()) lane_thread_.join();
}

// Callbacks of operations that are done still run.
void Context::Core::stop_completion_thread() {
  {
    const std::lock_guard lock(completion_mutex_);
    completion_stopping_ = true;
    completion_wanted_.notify_one();
  }
  if (completion_thread_.joinable()) completion_thread_.join();
}

}  // namespace weft
