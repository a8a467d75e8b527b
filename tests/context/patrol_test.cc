// A lane on which nothing is under way still serves its peers: one of them may have given up a path
// that lost what this rank sent last.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "engine/lane/lane_thread.h"

namespace weft {
namespace {

// Counts how often the thread drives; `has_waiter` is what the lane would say.
class Drives {
 public:
  [[nodiscard]] LaneWork work(bool has_waiter = false) {
    return {"patrol", std::chrono::microseconds(0), [has_waiter] { return has_waiter; },
            [] { return 0U; },
            [this](const std::atomic<bool>&) {
              const std::lock_guard lock(mutex_);
              ++count_;
              changed_.notify_all();
            }};
  }
  void wait_for(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ >= count; });
  }
  [[nodiscard]] int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

TEST(Patrol, TheThreadDrivesAgainAndAgainWithoutACall) {
  Drives drives;
  LaneThread thread(drives.work(), {});
  ASSERT_TRUE(thread.start().ok());
  thread.patrol();
  drives.wait_for(2);
}

TEST(Patrol, ACallAndAPatrolGoTogether) {
  Drives drives;
  LaneThread thread(drives.work(), {});
  ASSERT_TRUE(thread.start().ok());
  thread.call();
  drives.wait_for(1);
  thread.patrol();
  thread.call();
  drives.wait_for(3);
}

TEST(Patrol, WithoutOneTheThreadDrivesOnlyWhenCalled) {
  Drives drives;
  {
    LaneThread thread(drives.work(), {});
    ASSERT_TRUE(thread.start().ok());
    thread.call();
    drives.wait_for(1);
  }
  EXPECT_EQ(drives.count(), 1);
}

}  // namespace
}  // namespace weft
