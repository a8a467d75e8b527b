// Several locks as one: the order in which they are taken, and that a failure gives all back.
#include <gtest/gtest.h>

#include <array>
#include <deque>

#include "tests/transport/fake_endpoint.h"
#include "verbs/lock/lock.h"

namespace weft {
namespace {

constexpr std::int64_t kDeadlineNs = 1'000;
constexpr std::size_t kOwners = 3;

class LockGroupTest : public testing::Test {
 protected:
  LockGroupTest() {
    for (std::size_t o = 0; o < kOwners; ++o) {
      paths.emplace_back(static_cast<Rank>(o));
      locks.emplace_back(paths.back(), RemoteBuffer{PieceForm::view, 64 * o, 8}, attempts,
                         LockOptions{});
    }
    group.emplace(std::vector<Lock*>{&locks[0], &locks[1], &locks[2]});
  }
  // Drives all until nothing moves any more.
  void drive(std::int64_t now_ns = 0) {
    for (std::size_t turn = 0; turn < 4 * kOwners; ++turn) {
      for (std::size_t o = 0; o < kOwners; ++o) drive_one(o, now_ns);
      group->advance();
    }
  }
  void drive_one(std::size_t owner, std::int64_t now_ns) {
    locks[owner].advance(now_ns);
    auto& posted = paths[owner].works;
    if (posted.empty()) return;
    const WorkRequest swap = posted.front();
    posted.pop_front();
    *swap.found = words[owner];
    if (words[owner] == swap.expected) {
      words[owner] = swap.desired;
      order.push_back(owner);
    }
    locks[owner].completed({}, now_ns);
  }

  std::array<std::uint64_t, kOwners> words{};
  std::vector<std::size_t> order;
  LockAttempts attempts;
  std::deque<FakeEndpoint> paths;
  std::deque<Lock> locks;
  std::optional<LockGroup> group;
};

TEST_F(LockGroupTest, TakesAllInTheOrderGivenAndGivesAllBack) {
  ASSERT_TRUE(group->acquire(kDeadlineNs).ok());
  drive();
  EXPECT_EQ(group->state(), LockState::held);
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2}));
  ASSERT_TRUE(group->release().ok());
  drive();
  EXPECT_EQ(group->state(), LockState::idle);
  EXPECT_TRUE(group->status().ok());
  for (const std::uint64_t word : words) EXPECT_EQ(unpack(word), (LockWord{kNoRank, 0, 1}));
}

TEST_F(LockGroupTest, WaitsForTheOneThatIsTakenAndAsksForNoneBehindIt) {
  words[1] = pack({5, 1, 9});
  ASSERT_TRUE(group->acquire(kDeadlineNs).ok());
  drive();
  EXPECT_EQ(group->state(), LockState::taking);
  EXPECT_EQ(locks[2].state(), LockState::idle);
}

TEST_F(LockGroupTest, ADeadlineGivesBackWhatWasTakenAndNamesTheHolder) {
  words[2] = pack({5, 1, 9});
  ASSERT_TRUE(group->acquire(kDeadlineNs).ok());
  drive();
  drive(kDeadlineNs);
  EXPECT_EQ(group->state(), LockState::idle);
  EXPECT_EQ(group->status().rank(), 5) << group->status().to_string();
  EXPECT_TRUE(unpack(words[0]).free());
  EXPECT_TRUE(unpack(words[1]).free());
}

TEST_F(LockGroupTest, ALostLockIsPassedOverOrEndsAll) {
  for (const Status& why : {Status(), Status(Code::peer_died, "rank 1 has died", 1)}) {
    words[1] = pack({5, 1, 9});
    ASSERT_TRUE(group->acquire(kDeadlineNs).ok());
    drive();
    ASSERT_EQ(group->state(), LockState::taking);
    locks[1].lose(why);
    drive();
    EXPECT_EQ(group->state(), why.ok() ? LockState::held : LockState::idle);
    EXPECT_EQ(group->status().code(), why.code());
    EXPECT_EQ(group->release().ok(), why.ok());
    drive();
    EXPECT_EQ(group->state(), LockState::idle);
    EXPECT_TRUE(unpack(words[0]).free());
    EXPECT_TRUE(unpack(words[2]).free());
  }
}

TEST_F(LockGroupTest, CallsThatHaveNoMeaningAreErrors) {
  EXPECT_EQ(group->release().code(), Code::invalid_argument);
  ASSERT_TRUE(locks[1].acquire(kDeadlineNs).ok());
  EXPECT_EQ(group->acquire(kDeadlineNs).code(), Code::invalid_argument);
  EXPECT_EQ(locks[0].state(), LockState::idle);
}

TEST_F(LockGroupTest, NoLocksAreHeldAtOnce) {
  LockGroup none({});
  ASSERT_TRUE(none.acquire(kDeadlineNs).ok());
  EXPECT_EQ(none.state(), LockState::held);
  ASSERT_TRUE(none.release().ok());
  none.advance();
  EXPECT_EQ(none.state(), LockState::idle);
}

}  // namespace
}  // namespace weft
