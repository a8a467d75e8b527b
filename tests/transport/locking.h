// What tests of locks over real transports share: a lock word with a count behind it, which is read
// and written in two steps, so that it is exact only if one rank at a time does that.
#pragma once

#include "tests/transport/group.h"
#include "verbs/lock/lock.h"

namespace weft {

inline constexpr std::size_t kGuardedBytes = 16;
inline constexpr std::uint64_t kLockTicket = 1'000;
inline constexpr std::int64_t kPatienceNs = kPatienceMs * 1'000'000;

inline RemoteBuffer word_of(const RemoteBuffer& guarded) {
  return {guarded.form, guarded.word, 8};
}
inline RemoteBuffer count_of(const RemoteBuffer& guarded) {
  return {guarded.form, guarded.word + 8, 8};
}

inline LockOptions lock_options(Rank self, std::uint64_t ticket = kLockTicket) {
  LockOptions options;
  options.self = self;
  options.ticket = ticket;
  return options;
}

// One turn of the owner of an interface: what is due, and completions to the locks whose tickets
// they have (the n-th lock's is kLockTicket + n).
inline void turn(Interface& own, std::span<Lock* const> locks) {
  for (Lock* lock : locks) lock->advance(now_ns());
  own.progress();
  std::array<Completion, 4> completions;
  const std::size_t count = own.poll(completions);
  for (std::size_t c = 0; c < count; ++c) {
    locks[completions[c].ticket - kLockTicket]->completed(completions[c].status, now_ns());
  }
}

// Drives one lock until it is in this state; fails the test with its status if that never happens.
inline void drive(Interface& own, Lock& lock, LockState until) {
  std::array<Lock*, 1> locks{&lock};
  EXPECT_TRUE(weft::eventually([&] {
    turn(own, locks);
    return lock.state() == until;
  })) << lock.status().to_string();
}

inline void drive(Interface& own, std::span<Lock* const> locks, LockGroup& group, LockState until) {
  EXPECT_TRUE(weft::eventually([&] {
    turn(own, locks);
    group.advance();
    return group.state() == until;
  })) << group.status().to_string();
}

inline void add_one(Interface& own, Endpoint& owner, const RemoteBuffer& guarded) {
  std::uint64_t count = 0;
  const auto bytes = std::as_writable_bytes(std::span(&count, 1));
  ASSERT_EQ(owner.post_read(bytes, count_of(guarded), 1), Posted::posted);
  ASSERT_TRUE(wait_completion(own).status.ok());
  ++count;
  sched_yield();  // an invitation to whoever may come in here
  ASSERT_EQ(owner.post_write(bytes, count_of(guarded), 2), Posted::posted);
  ASSERT_TRUE(wait_completion(own).status.ok());
}

// Adds `times` to the count, one at a time, each under the lock.
inline void count_under_lock(Interface& own, Endpoint& owner, const RemoteBuffer& guarded,
                             Rank self, std::uint32_t times) {
  LockAttempts attempts;
  Lock lock(owner, word_of(guarded), attempts, lock_options(self));
  for (std::uint32_t done = 0; done < times && !testing::Test::HasFailure(); ++done) {
    ASSERT_TRUE(lock.acquire(now_ns() + kPatienceNs).ok());
    drive(own, lock, LockState::held);
    add_one(own, owner, guarded);
    ASSERT_TRUE(lock.release().ok());
    drive(own, lock, LockState::idle);
    ASSERT_TRUE(lock.status().ok()) << lock.status().to_string();
  }
}

}  // namespace weft
