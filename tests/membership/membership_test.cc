// membership: who died, who left, and who is told.
#include "engine/membership/membership.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/membership/child.h"

namespace weft {
namespace {

using std::chrono_literals::operator""s;

MembershipCallbacks noting(Changes& changes) {
  return {[&changes] { changes.note(); }, {}};
}

TEST(Membership, StartsWithNothingToReport) {
  const Membership membership;
  EXPECT_EQ(membership.epoch(), 0U);
  EXPECT_TRUE(membership.failure().ok());
  EXPECT_FALSE(membership.left(0));
  EXPECT_FALSE(membership.died(0));
}

TEST(Membership, AKilledProcessIsNoticedWithinASecondAndNamed) {
  Changes changes;
  const Child child;
  Membership membership(noting(changes));
  ASSERT_TRUE(membership.watch(2, child.pid()).ok());
  EXPECT_EQ(membership.epoch(), 0U);

  child.kill();
  ASSERT_TRUE(changes.wait_for(1, 1s));
  EXPECT_EQ(membership.epoch(), 1U);
  EXPECT_TRUE(membership.died(2));
  const Status failure = membership.failure();
  EXPECT_EQ(failure.code(), Code::peer_died);
  EXPECT_EQ(failure.rank(), 2);
  EXPECT_EQ(failure.text(),
            "rank 2 (process " + std::to_string(child.pid()) + ") ended without leaving the job");
}

TEST(Membership, AnOrderlyExitWithoutGoodbyeIsADeathToo) {
  Changes changes;
  const Child child;
  Membership membership(noting(changes));
  ASSERT_TRUE(membership.watch(2, child.pid()).ok());
  child.let_leave();
  ASSERT_TRUE(changes.wait_for(1, 10s));
  EXPECT_EQ(membership.failure().rank(), 2);
}

// The second child shows that the watcher was awake after the first one's end.
TEST(Membership, ARankThatLeftMayEnd) {
  Changes changes;
  Child first;
  const Child second;
  Membership membership(noting(changes));
  ASSERT_TRUE(membership.watch(1, first.pid()).ok());
  ASSERT_TRUE(membership.watch(2, second.pid()).ok());
  membership.mark_left(1);
  EXPECT_EQ(changes.count(), 1);
  first.let_leave();
  first.reap();
  EXPECT_TRUE(membership.failure().ok());

  second.kill();
  ASSERT_TRUE(changes.wait_for(2, 10s));
  EXPECT_EQ(membership.failure().rank(), 2);
  EXPECT_EQ(membership.epoch(), 2U);
  EXPECT_TRUE(membership.left(1));
  EXPECT_FALSE(membership.died(1));
}

TEST(Membership, AGoodbyeThatIsStillUnderWayIsAskedForBeforeADeathIsDeclared) {
  Changes changes;
  const Child child;
  Membership membership({[&] { changes.note(); }, [](Rank rank) { return rank == 1; }});
  ASSERT_TRUE(membership.watch(1, child.pid()).ok());
  child.let_leave();
  ASSERT_TRUE(changes.wait_for(1, 10s));
  EXPECT_TRUE(membership.left(1));
  EXPECT_TRUE(membership.failure().ok());
}

TEST(Membership, AProcessThatIsGoneIsADeathAtOnce) {
  Changes changes;
  Child child;
  const pid_t pid = child.pid();
  child.kill();
  child.reap();
  Membership membership(noting(changes));
  EXPECT_TRUE(membership.watch(4, pid).ok());
  EXPECT_EQ(changes.count(), 1);
  EXPECT_EQ(membership.failure().rank(), 4);
}

TEST(Membership, AZombieIsADeath) {
  Changes changes;
  const Child child;
  child.kill();
  child.wait_for_end();
  Membership membership(noting(changes));
  EXPECT_TRUE(membership.watch(4, child.pid()).ok());
  ASSERT_TRUE(changes.wait_for(1, 10s));
  EXPECT_EQ(membership.failure().rank(), 4);
}

TEST(Membership, ANumberThatIsNoProcessIsTheCallersError) {
  Membership membership;
  const Status status = membership.watch(3, -7);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_EQ(status.rank(), 3);
  EXPECT_NE(status.text().find("watch process -7"), std::string_view::npos);
  EXPECT_TRUE(membership.failure().ok());
}

TEST(Membership, ARankIsWatchedOnce) {
  const Child child;
  Membership membership;
  ASSERT_TRUE(membership.watch(1, child.pid()).ok());
  EXPECT_EQ(membership.watch(1, child.pid()).code(), Code::invalid_argument);
}

TEST(Membership, TheFirstWordAboutARankStandsAndTheFirstDeathIsTheFailure) {
  Changes changes;
  Membership membership(noting(changes));
  membership.mark_left(1);
  membership.mark_died(1, "late news");
  membership.mark_died(5, "its connection broke");
  membership.mark_died(5, "its process ended");
  membership.mark_left(5);
  membership.mark_died(6, "its connection broke");
  EXPECT_EQ(membership.epoch(), 3U);
  EXPECT_EQ(changes.count(), 3);
  EXPECT_TRUE(membership.left(1));
  EXPECT_FALSE(membership.left(5));
  EXPECT_TRUE(membership.died(6));
  EXPECT_EQ(membership.failure().to_string(), "peer_died: rank 5 died: its connection broke");
  EXPECT_EQ(membership.failure().rank(), 5);
}

TEST(Membership, ARankThatIsGoneIsNotWatched) {
  Changes changes;
  Child child;
  Membership membership(noting(changes));
  membership.mark_left(1);
  child.kill();
  const pid_t pid = child.pid();
  child.reap();
  EXPECT_TRUE(membership.watch(1, pid).ok());
  EXPECT_TRUE(membership.failure().ok());
  EXPECT_EQ(changes.count(), 1);
}

TEST(Membership, ManyDeathsAreEachReportedOnce) {
  constexpr int kChildren = 64;
  Changes changes;
  std::vector<Child> children(kChildren);
  Membership membership(noting(changes));
  for (Rank rank = 0; rank < kChildren; ++rank) {
    ASSERT_TRUE(membership.watch(rank, children[static_cast<std::size_t>(rank)].pid()).ok());
  }
  for (const Child& child : children) child.kill();
  ASSERT_TRUE(changes.wait_for(kChildren, 10s));
  for (Rank rank = 0; rank < kChildren; ++rank) EXPECT_TRUE(membership.died(rank));
  EXPECT_EQ(membership.epoch(), Epoch{kChildren});
}

TEST(Membership, ThreadsMayTellTheSameNewsAtOnce) {
  constexpr int kThreads = 4;
  Changes changes;
  Membership membership(noting(changes));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&membership] {
      for (Rank rank = 0; rank < 100; ++rank) {
        membership.mark_died(rank, "seen by many");
        EXPECT_GT(membership.epoch(), 0U);
        EXPECT_FALSE(membership.failure().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(membership.epoch(), 100U);
  EXPECT_EQ(changes.count(), 100);
}

// What a context does that drains its store's events in has_left, under the lock under which it
// tells them.
TEST(Membership, NewsMayBeToldUnderALockThatACallbackWaitsFor) {
  std::mutex news;
  Changes asked;
  Changes changes;
  const Child child;
  Membership membership({[&] { changes.note(); },
                         [&](Rank) {
                           asked.note();
                           const std::lock_guard lock(news);
                           return false;
                         }});
  ASSERT_TRUE(membership.watch(1, child.pid()).ok());
  {
    const std::lock_guard lock(news);
    child.let_leave();
    ASSERT_TRUE(asked.wait_for(1, 10s));
    membership.mark_left(1);
  }
  EXPECT_TRUE(membership.left(1));
  EXPECT_TRUE(membership.failure().ok());
  EXPECT_EQ(changes.count(), 1);
}

// The callbacks' captures go out of scope right after the Membership: a late call would be seen by
// ASan.
TEST(Membership, MayEndWhileDeathsAreBeingReported) {
  for (int round = 0; round < 20; ++round) {
    const std::vector<Child> children(4);
    const auto changes = std::make_unique<Changes>();
    Membership membership(noting(*changes));
    for (Rank rank = 0; rank < 4; ++rank) {
      ASSERT_TRUE(membership.watch(rank, children[static_cast<std::size_t>(rank)].pid()).ok());
    }
    for (const Child& child : children) child.kill();
    ASSERT_TRUE(changes->wait_for(1, 10s));
  }
}

}  // namespace
}  // namespace weft
