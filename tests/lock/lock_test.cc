// One lock whose swaps the test answers: what it asks for and when, and what it says of failures.
#include "verbs/lock/lock.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/transport/fake_endpoint.h"

namespace weft {
namespace {

constexpr Rank kOwner = 3;
constexpr Rank kSelf = 7;
constexpr RemoteBuffer kWord{PieceForm::view, 64, 8};
constexpr std::int64_t kDeadlineNs = 500'000'000;

class LockTest : public testing::Test {
 protected:
  static LockOptions options(Rank self = kSelf) {
    LockOptions options;
    options.self = self;
    options.ticket = 11;
    return options;
  }
  // The swap that is due now reaches a word that is `word`.
  void answer(const LockWord& word, std::int64_t now_ns = 0) {
    lock.advance(now_ns);
    ASSERT_EQ(path.works.size(), 1u);
    *path.works.front().found = pack(word);
    path.works.pop_front();
    lock.completed({}, now_ns);
  }
  // The same for a word that is as expected; what it has become.
  LockWord grant() {
    lock.advance(0);
    const LockWord expected = unpack(path.works.front().expected);
    const LockWord desired = unpack(path.works.front().desired);
    answer(expected);
    return desired;
  }

  FakeEndpoint path{kOwner};
  LockAttempts attempts;
  Lock lock{path, kWord, attempts, options()};
};

TEST(LockWords, ArePackedAndUnpacked) {
  EXPECT_EQ(pack({}), 0u) << "zeroed memory is a free lock";
  for (const LockWord& word : {LockWord{0, 0, 0}, LockWord{kMostLockRanks - 1, 32'767, ~0U},
                               LockWord{kNoRank, 0, ~0U}, LockWord{5, 1, 1}}) {
    EXPECT_EQ(unpack(pack(word)), word);
  }
  const std::uint64_t noise = ~std::uint64_t{0};
  EXPECT_EQ(pack(unpack(noise)), noise) << "what a peer wrote is no fault";
}

TEST_F(LockTest, AFreeLockCostsOneSwap) {
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  lock.advance(0);
  ASSERT_EQ(path.works.size(), 1u);
  EXPECT_EQ(path.works.front().ticket, 11u);
  EXPECT_EQ(path.works.front().remote.word, kWord.word);
  const LockWord held = grant();
  EXPECT_EQ(lock.state(), LockState::held);
  EXPECT_EQ(held.holder, kSelf);
  ASSERT_TRUE(lock.release().ok());
  EXPECT_EQ(grant(), (LockWord{kNoRank, 0, 1}));
  EXPECT_EQ(lock.state(), LockState::idle);
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  EXPECT_EQ(grant().epoch, 1u) << "it knows the word that it left";
  EXPECT_EQ(lock.state(), LockState::held);
}

TEST_F(LockTest, AWaiterAsksLessAndLessOftenButAlwaysWithinABound) {
  const LockWord taken{5, 1, 9};
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  std::int64_t now = 0;
  std::int64_t longest = options().shortest_wait_ns;
  for (int tries = 0; tries < 30; ++tries) {
    answer(taken, now);
    const std::int64_t wait = lock.next_ns() - now;
    EXPECT_GE(wait, longest / 2);
    EXPECT_LE(wait, longest);
    lock.advance(lock.next_ns() - 1);
    EXPECT_TRUE(path.works.empty()) << "it asked before its time";
    now = lock.next_ns();
    longest = std::min(2 * longest, options().longest_wait_ns);
  }
  answer({kNoRank, 0, 10}, now);
  EXPECT_EQ(lock.next_ns(), 0) << "what is free is taken at once";
}

TEST_F(LockTest, RanksWaitDifferently) {
  Lock other(path, kWord, attempts, options(kSelf + 1));
  const auto first_wait = [&](Lock& one) {
    (void)one.acquire(kDeadlineNs);
    one.advance(0);
    *path.works.front().found = pack({5, 1, 9});
    path.works.pop_front();
    one.completed({}, 0);
    return one.next_ns();
  };
  EXPECT_NE(first_wait(lock), first_wait(other));
}

TEST_F(LockTest, TheDeadlineNamesTheHolderAndItsEpoch) {
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  answer({5, 1, 9});
  EXPECT_LE(lock.next_ns(), kDeadlineNs);
  lock.advance(kDeadlineNs);
  EXPECT_EQ(lock.state(), LockState::idle);
  EXPECT_EQ(
      lock.status().to_string(),
      "timed_out: the lock of rank 3 was not taken in time: rank 5 has held it since epoch 9");
  EXPECT_EQ(lock.status().rank(), 5);
  EXPECT_EQ(lock.next_ns(), Lock::kNever);
}

TEST_F(LockTest, TheDeadlineNamesTheOwnerWhoDoesNotAnswer) {
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  lock.advance(0);
  EXPECT_EQ(lock.next_ns(), kDeadlineNs);
  lock.advance(kDeadlineNs);
  EXPECT_EQ(lock.status().rank(), kOwner);
  EXPECT_NE(lock.status().text().find("did not answer"), std::string_view::npos);
  EXPECT_EQ(lock.state(), LockState::withdrawing);
  grant();  // late, but ours
  ASSERT_EQ(lock.state(), LockState::releasing);
  EXPECT_TRUE(grant().free());
  EXPECT_EQ(lock.state(), LockState::idle);
  EXPECT_EQ(lock.status().code(), Code::timed_out) << "the reason stays";
}

TEST_F(LockTest, TheDeadlineOfAReleaseNamesTheOwnerAndTheLockIsGivenBackLater) {
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  grant();
  ASSERT_TRUE(lock.release(kDeadlineNs).ok());
  lock.advance(0);
  EXPECT_EQ(lock.next_ns(), kDeadlineNs);
  EXPECT_FALSE(lock.is_settling());
  lock.advance(kDeadlineNs);
  EXPECT_TRUE(lock.is_settling());
  EXPECT_EQ(lock.status().to_string(),
            "timed_out: the lock of rank 3 was not given back in time: its owner did not answer");
  EXPECT_EQ(lock.status().rank(), kOwner);
  EXPECT_TRUE(grant().free());
  EXPECT_EQ(lock.state(), LockState::idle);
  EXPECT_FALSE(lock.is_settling());
}

TEST_F(LockTest, TheDeadlineNamesTheFailureOfThePath) {
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  path.abandon(Status(Code::unavailable, "no carrier", kOwner));
  lock.advance(0);
  EXPECT_TRUE(path.works.empty());
  EXPECT_EQ(lock.next_ns(), kDeadlineNs) << "there is nothing to do before";
  lock.advance(kDeadlineNs);
  EXPECT_NE(lock.status().text().find("no carrier"), std::string_view::npos);
  EXPECT_EQ(lock.state(), LockState::idle);
}

TEST_F(LockTest, ALostSwapIsAskedForAgainOverTheNextPath) {
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  lock.advance(0);
  const WorkRequest lost = path.works.front();
  path.abandon(Status(Code::unavailable, "no carrier", kOwner));
  lock.completed(path.failure(), 0);
  EXPECT_EQ(lock.state(), LockState::taking);
  FakeEndpoint next(kOwner);
  lock.rejoin(next);
  lock.advance(0);
  ASSERT_EQ(next.works.size(), 1u);
  EXPECT_EQ(next.works.front().expected, lost.expected);
  EXPECT_EQ(next.works.front().desired, lost.desired);
  *next.works.front().found = lost.desired;
  lock.completed({}, 0);
  EXPECT_EQ(lock.state(), LockState::held) << "the lost one had taken it";
}

TEST_F(LockTest, WhatThePathRefusesIsTheError) {
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  lock.advance(0);
  lock.completed(Status(Code::invalid_argument, "outside its shared heap", kOwner), 0);
  EXPECT_EQ(lock.state(), LockState::idle);
  EXPECT_EQ(lock.status().to_string(), "invalid_argument: outside its shared heap");
}

TEST_F(LockTest, TheLastEpochIsFollowedByTheFirst) {
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  answer({kNoRank, 0, ~0U});
  EXPECT_EQ(grant().epoch, ~0U);
  ASSERT_TRUE(lock.release().ok());
  EXPECT_EQ(grant(), (LockWord{kNoRank, 0, 0}));
}

TEST_F(LockTest, AFullPathIsAskedAgain) {
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  path.is_full = true;
  lock.advance(0);
  EXPECT_FALSE(lock.busy());
  path.is_full = false;
  grant();
  EXPECT_EQ(lock.state(), LockState::held);
}

TEST_F(LockTest, ADeadHoldersLockIsInherited) {
  const LockWord dead{5, 1, 9};
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  answer(dead);
  ASSERT_TRUE(lock.take_over(lock.seen()).ok());
  const LockWord now = grant();
  EXPECT_EQ(lock.state(), LockState::held);
  EXPECT_EQ(now.holder, kSelf);
  EXPECT_EQ(now.epoch, 10u);
  EXPECT_TRUE(lock.inherited());
}

TEST_F(LockTest, WhoComesTooLateToInheritWaitsForTheHeir) {
  const LockWord dead{5, 1, 9};
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  answer(dead);
  ASSERT_TRUE(lock.take_over(dead).ok());
  answer({6, 1, 10});
  EXPECT_EQ(lock.state(), LockState::taking);
  EXPECT_EQ(lock.seen().holder, 6);
  EXPECT_GT(lock.next_ns(), 0);
}

TEST_F(LockTest, AHolderThatWasTakenForDeadIsTold) {
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  grant();
  ASSERT_TRUE(lock.release().ok());
  answer({6, 1, 1});
  EXPECT_EQ(lock.state(), LockState::idle);
  EXPECT_EQ(lock.status().code(), Code::mismatch);
  EXPECT_EQ(lock.status().rank(), 6);
}

TEST_F(LockTest, AWordThatIsGoneIsWaitedForNoMore) {
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  lock.advance(0);
  path.abandon(Status(Code::unavailable, "no carrier", kOwner));
  lock.completed(path.failure(), 0);  // whether it was taken is in doubt
  lock.lose(Status(Code::peer_died, "rank 3 has died", kOwner));
  EXPECT_EQ(lock.state(), LockState::idle);
  EXPECT_EQ(lock.status().code(), Code::peer_died);
  EXPECT_EQ(lock.next_ns(), Lock::kNever);
}

TEST_F(LockTest, AWordThatIsGoneNeedsNoRelease) {
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  grant();
  ASSERT_TRUE(lock.release().ok());
  lock.advance(0);
  lock.lose({});
  EXPECT_EQ(lock.state(), LockState::idle);
  EXPECT_TRUE(lock.busy());
  lock.completed(Status(Code::unavailable, "no carrier", kOwner), 0);
  EXPECT_EQ(lock.state(), LockState::idle) << "the end of the swap changes nothing";
  EXPECT_FALSE(lock.busy());
  EXPECT_TRUE(lock.status().ok());
}

// The end of a swap that was under way when the lock was lost is not that of the next call's swap.
TEST_F(LockTest, WhatWasAskedForALostLockAnswersNoLaterCall) {
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  grant();
  ASSERT_TRUE(lock.release().ok());
  lock.advance(0);
  lock.lose({});
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  EXPECT_EQ(lock.next_ns(), kDeadlineNs) << "one swap at a time";
  *path.works.front().found = path.works.front().expected;  // it was given back
  path.works.pop_front();
  lock.completed({}, 0);
  EXPECT_EQ(lock.state(), LockState::taking);
  answer({kNoRank, 0, 1});
  EXPECT_EQ(grant().epoch, 1u);
  EXPECT_EQ(lock.state(), LockState::held);
}

TEST_F(LockTest, TheFailureOfWhatWasAskedForALostLockIsNoErrorOfALaterCall) {
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  lock.advance(0);
  lock.lose({});
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  path.works.clear();
  lock.completed(Status(Code::invalid_argument, "outside its shared heap", kOwner), 0);
  EXPECT_EQ(lock.state(), LockState::taking);
  grant();
  EXPECT_EQ(lock.state(), LockState::held);
}

TEST_F(LockTest, ACallThatEndsBeforeWhatWasAskedForALostLockLeavesNothingToSettle) {
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  lock.advance(0);
  lock.lose({});
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  lock.advance(kDeadlineNs);
  EXPECT_EQ(lock.status().code(), Code::timed_out);
  EXPECT_EQ(lock.state(), LockState::idle);
}

TEST_F(LockTest, CallsThatHaveNoMeaningAreErrors) {
  EXPECT_EQ(lock.release().code(), Code::invalid_argument);
  EXPECT_EQ(lock.take_over({5, 1, 9}).code(), Code::invalid_argument);
  ASSERT_TRUE(lock.acquire(kDeadlineNs).ok());
  EXPECT_EQ(lock.acquire(kDeadlineNs).code(), Code::invalid_argument);
  EXPECT_EQ(lock.take_over({}).code(), Code::invalid_argument);
  Lock beyond(path, kWord, attempts, options(kMostLockRanks));
  EXPECT_EQ(beyond.acquire(kDeadlineNs).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace weft
