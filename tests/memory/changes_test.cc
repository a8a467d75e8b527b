// Announcements of changed memory: which ranges they mark, from any thread, while owners come and
// go.
#include "verbs/memory/changes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <thread>

namespace weft {
namespace {

void announce(std::uintptr_t start, std::size_t bytes) {
  announce_change(reinterpret_cast<const void*>(start), bytes);  // NOLINT
}

using Ranges = std::vector<std::size_t>;

TEST(Changes, MarkWhatTheyTouchAndAreToldOnce) {
  Watch watch;
  ASSERT_EQ(watch.begin(1000, 2000), 0u);
  ASSERT_EQ(watch.begin(2000, 3000), 1u);
  ASSERT_EQ(watch.begin(1500, 2500), 2u);
  announce(3000, 10);
  announce(990, 10);
  announce(1500, 0);
  EXPECT_FALSE(watch.changed());
  announce(1999, 1);
  EXPECT_TRUE(watch.changed());
  EXPECT_EQ(watch.take_changed(), (Ranges{0, 2}));
  EXPECT_FALSE(watch.changed());
  EXPECT_EQ(watch.take_changed(), Ranges{});
  announce(2999, ~std::size_t{0});
  EXPECT_EQ(watch.take_changed(), Ranges{1}) << "to the end of the address space";
}

TEST(Changes, AreNotToldOfRangesThatEnded) {
  Watch watch;
  (void)watch.begin(1000, 2000);
  watch.end(0);
  announce(1000, 1000);
  EXPECT_FALSE(watch.changed());
  ASSERT_EQ(watch.begin(5000, 6000), 0u) << "its number is free again";
  announce(1000, 1000);
  EXPECT_EQ(watch.take_changed(), Ranges{});
  announce(5000, 1);
  watch.end(0);
  EXPECT_EQ(watch.take_changed(), Ranges{});
  ASSERT_EQ(watch.begin(7000, 8000), 0u);
  EXPECT_EQ(watch.take_changed(), Ranges{}) << "the mark was its predecessor's";
}

TEST(Changes, ReachEveryOwnerAndTheNextOneStartsClean) {
  Watch first;
  (void)first.begin(1000, 2000);
  {
    Watch second;
    (void)second.begin(1500, 2500);
    announce(1500, 100);
    EXPECT_TRUE(second.changed());
  }
  EXPECT_EQ(first.take_changed(), Ranges{0});
  Watch third;
  EXPECT_EQ(third.take_changed(), Ranges{});
  announce(2400, 1);
  EXPECT_EQ(third.take_changed(), Ranges{});
}

TEST(Changes, AFullTableSaysSo) {
  Watch watch;
  for (std::size_t i = 0; i < Watch::kMostRanges; ++i) EXPECT_EQ(watch.begin(i, i + 1), i);
  EXPECT_EQ(watch.begin(1, 2), std::nullopt);
  watch.end(17);
  EXPECT_EQ(watch.begin(1, 2), 17u);
}

TEST(Changes, MayBeAnnouncedInASignalHandler) {
  Watch watch;
  (void)watch.begin(1000, 2000);
  const auto before = std::signal(SIGUSR1, [](int) { announce(1000, 1); });
  std::raise(SIGUSR1);
  std::signal(SIGUSR1, before);
  EXPECT_EQ(watch.take_changed(), Ranges{0});
}

// Each range is announced once by another thread while it is watched, and must be told.
TEST(Changes, FromOtherThreadsAreNeverLost) {
  constexpr int kThreads = 2;
  constexpr std::uintptr_t kRounds = 300;
  std::atomic<std::uintptr_t> watched{0};
  std::atomic<int> announced{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int self = 0; self < kThreads; ++self) {
    threads.emplace_back([&, self] {
      for (std::uintptr_t round = 1; round <= kRounds; ++round) {
        while (watched.load(std::memory_order_acquire) < round) std::this_thread::yield();
        announce(round * 1000 + static_cast<std::uintptr_t>(self) * 10, 10);
        announced.fetch_add(1, std::memory_order_acq_rel);
      }
    });
  }
  std::thread passers([&] {  // owners that come and go
    while (!stop.load(std::memory_order_relaxed)) {
      Watch watch;
      (void)watch.begin(1, 2);
      announce(1, 1);
      EXPECT_EQ(watch.take_changed(), Ranges{0});
      watch.end(0);
      std::this_thread::yield();
    }
  });
  Watch watch;
  for (std::uintptr_t round = 1; round <= kRounds; ++round) {
    Ranges expected;
    for (std::uintptr_t self = 0; self < kThreads; ++self) {
      expected.push_back(*watch.begin(round * 1000 + self * 10, round * 1000 + self * 10 + 10));
    }
    watched.store(round, std::memory_order_release);
    Ranges told;
    while (announced.load(std::memory_order_acquire) < static_cast<int>(round) * kThreads) {
      for (const std::size_t range : watch.take_changed()) told.push_back(range);
      std::this_thread::yield();
    }
    for (const std::size_t range : watch.take_changed()) told.push_back(range);
    std::sort(told.begin(), told.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(told, expected);
    for (const std::size_t range : expected) watch.end(range);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  passers.join();
}

}  // namespace
}  // namespace weft
