// Conformance: locks hold over every transport, for the word's owner too, singly and in groups, and
// when a path fails or a holder is dead.
#include <atomic>
#include <deque>

#include "tests/transport/locking.h"
#include "tests/transport/shared_buffer.h"

namespace weft {
namespace {

class Locks : public testing::TestWithParam<TransportFactory> {};
WEFT_FOR_ALL_TRANSPORTS(Locks);

constexpr Rank kRanks = 4;

std::uint64_t number_at(const SharedBuffer& buffer, std::size_t offset) {
  std::uint64_t number = 0;
  std::memcpy(&number, buffer.bytes().data() + offset, sizeof number);
  return number;
}

void link_all(Group& group) {
  for (Rank from = 0; from < kRanks; ++from) {
    for (Rank to = 0; to < kRanks; ++to) (void)group.link(from, to);
  }
}

TEST_P(Locks, AllRanksCountUnderOneLockAndLoseNothing) {
  Group group(GetParam(), kRanks);
  link_all(group);
  const std::uint32_t times = group.link(0, 1).properties().shares_memory ? 400 : 150;
  SharedBuffer buffer(kGuardedBytes);
  const RemoteBuffer guarded = describe_memory(buffer.bytes().data(), kGuardedBytes);
  group.run([&](Rank self) {
    count_under_lock(group.at(self), group.link(self, 0), guarded, self, times);
  });
  EXPECT_EQ(number_at(buffer, 8), kRanks * times);
  EXPECT_EQ(unpack(number_at(buffer, 0)), (LockWord{kNoRank, 0, kRanks * times}));
}

// Every rank owns a lock and takes those of all, itself included, in the order of ranks.
TEST_P(Locks, GroupsOfAllRanksLocksLoseNothing) {
  constexpr std::uint32_t kTimes = 20;
  Group group(GetParam(), kRanks);
  link_all(group);
  std::deque<SharedBuffer> buffers;
  std::vector<RemoteBuffer> guarded;
  for (Rank owner = 0; owner < kRanks; ++owner) {
    buffers.emplace_back(kGuardedBytes);
    guarded.push_back(describe_memory(buffers.back().bytes().data(), kGuardedBytes));
  }
  group.run([&](Rank self) {
    LockAttempts attempts;
    std::deque<Lock> locks;
    std::vector<Lock*> all;
    for (Rank owner = 0; owner < kRanks; ++owner) {
      const auto o = static_cast<std::size_t>(owner);
      all.push_back(&locks.emplace_back(group.link(self, owner), word_of(guarded[o]), attempts,
                                        lock_options(self, kLockTicket + o)));
    }
    LockGroup together(all);
    for (std::uint32_t done = 0; done < kTimes && !HasFailure(); ++done) {
      ASSERT_TRUE(together.acquire(now_ns() + kPatienceNs).ok());
      drive(group.at(self), all, together, LockState::held);
      for (Rank owner = 0; owner < kRanks; ++owner)
        add_one(group.at(self), group.link(self, owner), guarded[static_cast<std::size_t>(owner)]);
      ASSERT_TRUE(together.release().ok());
      drive(group.at(self), all, together, LockState::idle);
    }
  });
  for (const SharedBuffer& buffer : buffers) EXPECT_EQ(number_at(buffer, 8), kRanks * kTimes);
}

TEST_P(Locks, AWaiterIsToldWhoHoldsTheLock) {
  Group group(GetParam(), 3);
  SharedBuffer buffer(8);
  const RemoteBuffer word = describe_memory(buffer.bytes().data(), 8);
  LockAttempts attempts;
  Lock holder(group.link(1, 0), word, attempts, lock_options(1));
  Lock waiter(group.link(2, 0), word, attempts, lock_options(2));
  std::array<Lock*, 1> first{&holder};
  std::array<Lock*, 1> second{&waiter};
  ASSERT_TRUE(holder.acquire(now_ns() + kPatienceNs).ok());
  ASSERT_TRUE(group.eventually([&] {
    turn(group.at(1), first);
    return holder.state() == LockState::held;
  }));
  ASSERT_TRUE(waiter.acquire(now_ns() + kPatienceNs).ok());
  ASSERT_TRUE(group.eventually([&] {
    turn(group.at(2), second);
    return waiter.seen().holder == 1;
  }));
  waiter.advance(now_ns() + kPatienceNs);
  EXPECT_EQ(waiter.state(), LockState::idle);
  EXPECT_EQ(waiter.status().code(), Code::timed_out);
  EXPECT_EQ(waiter.status().rank(), 1) << waiter.status().to_string();
}

// Rank 1 never gives it back. The others know that it is dead: one inherits from it, and they
// count.
TEST_P(Locks, ADeadHoldersLockIsInheritedOnce) {
  Group group(GetParam(), kRanks);
  link_all(group);
  SharedBuffer buffer(kGuardedBytes);
  const RemoteBuffer guarded = describe_memory(buffer.bytes().data(), kGuardedBytes);
  std::atomic<bool> dead = false;
  std::atomic<int> heirs = 0;
  group.run([&](Rank self) {
    LockAttempts attempts;
    Interface& own = group.at(self);
    Lock lock(group.link(self, 0), word_of(guarded), attempts, lock_options(self));
    std::array<Lock*, 1> locks{&lock};
    if (self != 1) {
      ASSERT_TRUE(weft::eventually(own, [&] { return dead.load(std::memory_order_acquire); }));
    }
    ASSERT_TRUE(lock.acquire(now_ns() + kPatienceNs).ok());
    EXPECT_TRUE(weft::eventually([&] {
      turn(own, locks);
      const bool is_left = lock.state() == LockState::taking && lock.seen().holder == 1;
      EXPECT_TRUE(!is_left || lock.take_over(lock.seen()).ok());
      return lock.state() == LockState::held;
    })) << lock.status().to_string();
    if (self == 1) return dead.store(true, std::memory_order_release);
    heirs.fetch_add(lock.inherited() ? 1 : 0, std::memory_order_relaxed);
    add_one(own, group.link(self, 0), guarded);
    ASSERT_TRUE(lock.release().ok());
    drive(own, lock, LockState::idle);
  });
  EXPECT_EQ(heirs.load(), 1);
  EXPECT_EQ(number_at(buffer, 8), 3u);
}

// Whether the swap that the path took with it was done or not, the lock is taken once, over the
// next path; where there is none the deadline says so.
TEST_P(Locks, ASwapThatIsLostWithItsPathIsSettled) {
  Group group(GetParam(), 2);
  Endpoint& path = group.link(1, 0);
  if (path.properties().shares_memory) GTEST_SKIP() << "there every swap is done when it is posted";
  SharedBuffer buffer(8);
  LockAttempts attempts;
  Lock lock(path, describe_memory(buffer.bytes().data(), 8), attempts, lock_options(1));
  std::array<Lock*, 1> locks{&lock};
  const auto drive_until = [&](auto done) {
    return group.eventually([&] {
      turn(group.at(1), locks);
      return done();
    });
  };
  const auto cut_and_rejoin = [&](Endpoint& failing) {
    lock.advance(now_ns());
    EXPECT_TRUE(lock.busy());
    failing.abandon(Status(Code::unavailable, "cut by the test", 0));
    EXPECT_TRUE(drive_until([&] { return !lock.busy(); }));
    return group.at(1).reconnect(0, group.at(0).address());
  };
  ASSERT_TRUE(lock.acquire(now_ns() + kPatienceNs).ok());
  const Result<Endpoint*> next = cut_and_rejoin(path);
  EXPECT_EQ(lock.state(), LockState::taking);
  if (!next.ok()) {
    EXPECT_EQ(next.status().code(), Code::unavailable);
    lock.advance(now_ns() + kPatienceNs);
    EXPECT_NE(lock.status().text().find("cut by the test"), std::string_view::npos)
        << lock.status().to_string();
    return;
  }
  lock.rejoin(**next);
  ASSERT_TRUE(drive_until([&] { return lock.state() == LockState::held; }));
  EXPECT_EQ(unpack(number_at(buffer, 0)).holder, 1);
  ASSERT_TRUE(lock.release().ok());
  lock.rejoin(*must(cut_and_rejoin(**next)));
  ASSERT_TRUE(drive_until([&] { return lock.state() == LockState::idle; }));
  EXPECT_TRUE(lock.status().ok()) << lock.status().to_string();
  EXPECT_EQ(unpack(number_at(buffer, 0)), (LockWord{kNoRank, 0, 1}));
}

TEST_P(Locks, AClosedInterfaceEndsWhatIsUnderWay) {
  Group group(GetParam(), 2);
  SharedBuffer buffer(8);
  LockAttempts attempts;
  Lock lock(group.link(1, 0), describe_memory(buffer.bytes().data(), 8), attempts, lock_options(1));
  group.close(1);
  ASSERT_TRUE(lock.acquire(now_ns() + kPatienceNs).ok());
  std::array<Lock*, 1> locks{&lock};
  ASSERT_TRUE(group.eventually([&] {
    turn(group.at(1), locks);
    return lock.state() == LockState::idle;
  }));
  EXPECT_EQ(lock.status().code(), Code::closed) << lock.status().to_string();
}

}  // namespace
}  // namespace weft
