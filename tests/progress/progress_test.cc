// How waiters wait, and that a lane has one owner.
#include "verbs/progress/progress.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>
#include <vector>

namespace weft {
namespace {

constexpr std::int64_t kForeverNs = std::int64_t{1} << 60;
// More calls than a phase of no length may take: the clock is read once in 32.
constexpr int kFewCalls = 64;

int calls_until(Backoff& backoff, Backoff::Next wanted, int most) {
  for (int call = 1; call <= most; ++call) {
    if (backoff.next() == wanted) return call;
  }
  return most + 1;
}

TEST(WaitPolicy, SpinsOnlyWhileThereIsACoreForEachRank) {
  const WaitPolicy own = wait_policy(4, 4, -1, -1);
  const WaitPolicy shared = wait_policy(5, 4, -1, -1);
  EXPECT_GT(own.spin_ns, 0);
  EXPECT_EQ(shared.spin_ns, 0);
  EXPECT_GT(shared.yield_ns, own.yield_ns) << "a yield hands over sooner than a wake-up";
  EXPECT_GT(own.sleep_ns, 0);
  EXPECT_EQ(own.sleep_ns, shared.sleep_ns);
}

TEST(WaitPolicy, WhatIsAskedForIsTaken) {
  const WaitPolicy policy = wait_policy(100, 1, 123, 0);
  EXPECT_EQ(policy.spin_ns, 123);
  EXPECT_EQ(policy.yield_ns, 0);
}

TEST(WaitPolicy, AThreadBesideCallersThatComputeSleepsSoon) {
  EXPECT_LT(background_policy(5, 4, -1, -1).yield_ns, wait_policy(5, 4, -1, -1).yield_ns);
  EXPECT_EQ(background_policy(4, 4, -1, -1).yield_ns, wait_policy(4, 4, -1, -1).yield_ns);
  EXPECT_EQ(background_policy(5, 4, -1, 123).yield_ns, 123);
}

TEST(Backoff, WithoutABudgetItSleepsAtOnce) {
  const WaitPolicy policy{0, 0, 1};
  Backoff backoff(policy);
  EXPECT_EQ(backoff.next(), Backoff::Next::again) << "one more look is free";
  EXPECT_LE(calls_until(backoff, Backoff::Next::sleep, kFewCalls), kFewCalls);
}

TEST(Backoff, SpinsAndYieldsAsLongAsItsBudgetLasts) {
  for (const WaitPolicy& policy :
       {WaitPolicy{kForeverNs, 0, 1}, WaitPolicy{0, kForeverNs, 1}, WaitPolicy{1, kForeverNs, 1}}) {
    Backoff backoff(policy);
    for (int call = 0; call < 10'000; ++call) ASSERT_NE(backoff.next(), Backoff::Next::sleep);
  }
}

TEST(Backoff, GoesThroughAllPhases) {
  const WaitPolicy policy{1'000, 1'000, 1};
  Backoff backoff(policy);
  EXPECT_LE(calls_until(backoff, Backoff::Next::sleep, 1'000'000), 1'000'000);
  // It stays asleep: only a few looks lie between two sleeps.
  EXPECT_LE(calls_until(backoff, Backoff::Next::sleep, kFewCalls), kFewCalls);
}

TEST(Backoff, StartsAnewAfterSomethingWasFound) {
  const WaitPolicy policy{0, 0, 1};
  Backoff backoff(policy);
  (void)calls_until(backoff, Backoff::Next::sleep, kFewCalls);
  backoff.reset();
  EXPECT_EQ(backoff.next(), Backoff::Next::again);
}

// The other thread runs only when this one yields: both are bound to one core.
TEST(Backoff, YieldsAtOnceWhenItsCoreIsWanted) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  std::atomic<int> step{0};
  std::thread peer([&] {
    step.store(1);
    while (step.load() != 2) sched_yield();
    step.store(3);
  });
  while (step.load() != 1) sched_yield();
  const WaitPolicy spinning{kForeverNs, 0, 1, 1U << 20};
  Backoff backoff(spinning);
  step.store(2);
  for (int call = 0; call < 1'000 && step.load() != 3; ++call) (void)backoff.next(true);
  EXPECT_EQ(step.load(), 3);
  peer.join();
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(Backoff, AsksForASlowLookAboutOncePerMillisecond) {
  const WaitPolicy policy{0, kForeverNs, 1};
  Backoff backoff(policy);
  const std::int64_t start = now_ns();
  const Deadline enough = Deadline::after_ms(10'000);
  int slow = 0;
  while (slow < 5 && !enough.passed()) slow += backoff.next() == Backoff::Next::slow ? 1 : 0;
  EXPECT_EQ(slow, 5);
  EXPECT_GE(now_ns() - start, 5'000'000) << "five slow looks take five milliseconds at least";
}

TEST(UsableCores, FollowsTheAffinityMask) {
  EXPECT_GE(usable_cores(), 1);
  std::thread([] {
    const int here = sched_getcpu();
    ASSERT_GE(here, 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(here), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(usable_cores(), 1);
  }).join();
}

TEST(LaneToken, HasOneOwner) {
  LaneToken token;
  EXPECT_TRUE(token.try_acquire());
  EXPECT_FALSE(token.try_acquire());
  token.release();
  token.acquire();
  EXPECT_FALSE(token.try_acquire());
  EXPECT_FALSE(token.wanted());
  token.release();
}

TEST(LaneToken, OwnersExcludeEachOther) {
  constexpr std::int64_t kEach = 20'000;
  LaneToken token;
  std::int64_t counter = 0;  // no atomic: the token alone protects it
  const auto by_waiting = [&] {
    for (std::int64_t i = 0; i < kEach; ++i) {
      token.acquire();
      ++counter;
      token.release();
    }
  };
  const auto by_trying = [&] {
    for (std::int64_t i = 0; i < kEach;) {
      if (!token.try_acquire()) {
        sched_yield();
        continue;
      }
      ++counter;
      ++i;
      token.release();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back(by_waiting);
    threads.emplace_back(by_trying);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 4 * kEach);
  EXPECT_FALSE(token.wanted());
}

TEST(LaneToken, TheOwnerSeesThatAnotherWaits) {
  LaneToken token;
  token.acquire();
  std::thread waiter([&] {
    token.acquire();
    token.release();
  });
  const Deadline enough = Deadline::after_ms(60'000);
  while (!token.wanted() && !enough.passed()) sched_yield();
  EXPECT_TRUE(token.wanted());
  token.release();
  waiter.join();
  EXPECT_FALSE(token.wanted());
}

}  // namespace
}  // namespace weft
