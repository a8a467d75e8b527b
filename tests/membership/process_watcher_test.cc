// membership: the watcher's thread and descriptors exist while somebody watches, and once.
#include "engine/membership/process_watcher.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "engine/membership/membership.h"
#include "tests/membership/child.h"

namespace weft {
namespace {

using std::chrono_literals::operator""s;

std::ptrdiff_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::distance(begin(files), end(files));
}

int watcher_threads() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    count += name == "weft-watch" ? 1 : 0;
  }
  return count;
}

// A joined thread stays in /proc until the kernel has taken it apart, some microseconds later.
bool watcher_thread_goes() {
  const Deadline deadline = Deadline::after_ms(10'000);
  while (watcher_threads() > 0 && !deadline.passed()) ::sched_yield();
  return watcher_threads() == 0;
}

TEST(ProcessWatcher, IsSharedAndLeavesNothingBehind) {
  const Child child;
  const std::ptrdiff_t files = open_files();
  EXPECT_EQ(watcher_threads(), 0);
  {
    Membership first;
    Membership second;
    ASSERT_TRUE(first.watch(1, child.pid()).ok());
    ASSERT_TRUE(second.watch(1, child.pid()).ok());
    EXPECT_EQ(watcher_threads(), 1);
    EXPECT_EQ(open_files(), files + 4);  // epoll, eventfd and two pidfds
    first.mark_left(1);
    EXPECT_EQ(open_files(), files + 3);
  }
  EXPECT_TRUE(watcher_thread_goes());
  EXPECT_EQ(open_files(), files);
}

TEST(ProcessWatcher, StartsAgainAfterItEnded) {
  for (int round = 0; round < 3; ++round) {
    Changes changes;
    const Child child;
    Membership membership({[&] { changes.note(); }, {}});
    ASSERT_TRUE(membership.watch(1, child.pid()).ok());
    child.kill();
    EXPECT_TRUE(changes.wait_for(1, 10s));
  }
  EXPECT_TRUE(watcher_thread_goes());
}

TEST(ProcessWatcher, OneProcessMayBeWatchedTwice) {
  Changes changes;
  const Child child;
  const auto watcher = ProcessWatcher::shared().value();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(watcher->watch(child.pid(), [&] { changes.note(); }).ok());
  }
  child.kill();
  EXPECT_TRUE(changes.wait_for(2, 10s));
}

TEST(ProcessWatcher, ACallbackMayEndItsOwnWatch) {
  Changes changes;
  const Child child;
  const auto watcher = ProcessWatcher::shared().value();
  ProcessWatcher::WatchId id = ProcessWatcher::kNoWatch;
  std::mutex id_is_known;
  {
    const std::lock_guard lock(id_is_known);
    id = watcher
             ->watch(child.pid(),
                     [&] {
                       const std::lock_guard lock_in_callback(id_is_known);
                       watcher->unwatch(id);
                       changes.note();
                     })
             .value();
  }
  child.kill();
  EXPECT_TRUE(changes.wait_for(1, 10s));
  watcher->unwatch(id);
}

}  // namespace
}  // namespace weft
