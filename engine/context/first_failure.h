// first_failure: why a context has failed. The lanes of a context fail together, with the error of
// the lane that failed first. Internal to the module.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <utility>

#include "verbs/base/base.h"

namespace weft {

// Thread safe.
class FirstFailure {
 public:
  // `wake` wakes the lanes, so that they look here.
  explicit FirstFailure(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Notes the error of a lane. Returns false if an error was noted before.
  bool note(const Status& status) {
    {
      const std::lock_guard lock(mutex_);
      if (is_noted_.load(std::memory_order_relaxed)) return false;
      status_ = status;
      is_noted_.store(true, std::memory_order_release);
    }
    wake_();
    return true;
  }
  [[nodiscard]] bool is_noted() const { return is_noted_.load(std::memory_order_acquire); }
  // The error. It must have been noted.
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  const std::function<void()> wake_;
  std::mutex mutex_;
  std::atomic<bool> is_noted_{false};
  Status status_;
};

}  // namespace weft
