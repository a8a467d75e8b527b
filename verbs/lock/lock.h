// lock: mutual exclusion between ranks, on a word of memory that only compare-and-swap touches.
//
// A lock word lies in its owner's shared heap (weft::allocate gives it zeroed: a free lock) and
// belongs to one interface of the owner: every rank, the owner too, takes it through an endpoint
// that leads to that interface, because the atomics of a NIC are atomic only among themselves. A
// bond of several rails will not do; its member will. Where all who take it share the owner's
// memory, or the transport lets the owner's lane swap (UCX), that is fulfilled by itself.
//
//   word    {holder, attempt, epoch}; 0 is free in epoch 0
//   take    {free, e}       -> {me, a, e}
//   release {me, a, e}      -> {free, e + 1}
//   inherit {dead, b, e}    -> {me, a, e + 1}
//
// Each holding has an epoch of its own, and no word ever comes back: one that was left has an older
// epoch than all that follow. A swap expects only what was seen there. So a swap that is late, or
// comes twice, finds nothing that it expects, and one whose completion was lost (its path failed)
// is settled by asking for exactly the same once more, over the next path: it is done if the word
// is as expected (it is done now) or as desired (it was done then); otherwise it never was and
// never will be. Nothing of this relies on the failed path being silent; only `found` does: the
// contract completes each ticket once, after its last use.
//
// A Lock is one rank's hand on one word, a state machine without clock, thread or loop: advance()
// posts at most one swap, completed() takes its end, and next_ns() says until when there is nothing
// to do, so that a waiter sleeps on its interface and never spins here. A waiter looks (it swaps
// what it saw for itself) at times that double from shortest_wait_ns to longest_wait_ns, each drawn
// from the upper half, and takes what it finds free. Whoever asks at the right moment gets it:
// there is no queue, and no promise but that the waits are bounded. A free lock that this rank was
// the last to hold costs one round trip, else two.
//
// Threads: a Lock belongs to the lane of its path. Lifetime: a Lock outlives its swap in flight
// (busy()); Interface::close() ends it.
#pragma once

#include <atomic>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "verbs/transport/transport.h"

namespace weft {

// What a lock word says. The widths: every rank that transports know (65,536) and "nobody"; an
// attempt tells apart one rank's locks on the same word, of which a few are at work at a time; the
// epoch has the rest. It wraps after 2^32 releases, more than an hour of doing nothing else on a
// network (a microsecond each) and minutes in shared memory, where no swap is ever late; what could
// still be under way from then has long been given up by its queue pair.
struct LockWord {
  Rank holder = kNoRank;
  std::uint32_t attempt = 0;
  std::uint32_t epoch = 0;

  [[nodiscard]] bool free() const { return holder == kNoRank; }
  friend bool operator==(const LockWord&, const LockWord&) = default;
};
inline constexpr unsigned kEpochBits = 32;
inline constexpr unsigned kAttemptBits = 15;
inline constexpr unsigned kHolderBits = 17;
inline constexpr Rank kMostLockRanks = 65'536;
static_assert(kEpochBits + kAttemptBits + kHolderBits == 64);
static_assert(kMostLockRanks < (1 << kHolderBits), "every holder + 1 fits, 0 is nobody");

// Each is the other's inverse; what is wider than its place is cut.
[[nodiscard]] std::uint64_t pack(const LockWord& word);
[[nodiscard]] LockWord unpack(std::uint64_t word);

// Numbers the attempts of one rank, over all its locks. Thread safe.
class LockAttempts {
 public:
  [[nodiscard]] std::uint32_t next() {
    return next_.fetch_add(1, std::memory_order_relaxed) % (1U << kAttemptBits);
  }

 private:
  std::atomic<std::uint32_t> next_ = 0;
};

struct LockOptions {
  Rank self = 0;
  std::uint64_t ticket = 0;  // of its completions, of which there is one at a time
  std::uint64_t seed = 0;    // of the waits; ranks with the same seed wait differently
  // About a round trip; and so long that a thousand waiters ask a million times a second, which a
  // NIC bears on one word.
  std::int64_t shortest_wait_ns = 4'000;
  std::int64_t longest_wait_ns = 1'000'000;
};

enum class LockState : std::uint8_t {
  idle,         // nothing of ours is in the word or under way to it
  taking,       // acquire() goes on
  held,         // ours
  releasing,    // others see it as ours until this is over
  withdrawing,  // too late with a swap in doubt: what it took is released
};

class Lock {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  // `path` leads to the word's owner and its interface; `word` is how the owner describes it there.
  Lock(Endpoint& path, const RemoteBuffer& word, LockAttempts& attempts,
       const LockOptions& options);
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  // Begins to take the lock; it is over when state() is held, or idle or withdrawing with status().
  // At the deadline (nanoseconds of advance()'s clock): timed_out, naming the holder and since
  // which epoch, or the owner if it does not answer. invalid_argument if the lock is not idle.
  Status acquire(std::int64_t deadline_ns);
  // While taking: the holder of `dead`, as seen() told, is known to be dead, and the lock is
  // inherited if the word still says so; of several who try one wins. The caller answers for that
  // knowledge, and for what the dead rank may still write (context epochs keep it out).
  Status take_over(const LockWord& dead);
  // Begins to give it back. What was read and written under the lock must have completed before.
  // Over when idle; status() tells if another rank had taken over meanwhile. At the deadline:
  // timed_out, naming the owner. The lock is given back all the same, once the owner answers.
  Status release(std::int64_t deadline_ns = kNever);
  // The word is gone, because its owner is: idle at once, with this status. A swap in flight changes
  // nothing any more, also if acquire() is called before its end.
  void lose(const Status& why);
  // The endpoint from now on, after the one before failed (Interface::reconnect). The same one
  // changes nothing.
  void rejoin(Endpoint& path);
  // Whether the deadline has passed, so that advance() ends the call without a path.
  [[nodiscard]] bool is_late(std::int64_t now_ns) const {
    return has_deadline() && now_ns >= deadline_ns_;
  }
  // The deadline has passed while a swap was under way, so status() is the error of the call. Until
  // it is idle advance() settles whether the lock is ours, and releases it if so.
  [[nodiscard]] bool is_settling() const { return is_given_up_ && state_ != LockState::idle; }

  // Posts what is due. Call it at next_ns() at the latest, after completed() and after rejoin().
  void advance(std::int64_t now_ns);
  // The completion with our ticket.
  void completed(const Status& status, std::int64_t now_ns);
  [[nodiscard]] std::int64_t next_ns() const;

  [[nodiscard]] LockState state() const { return state_; }
  // Why the last acquire() or release() failed, or ok.
  [[nodiscard]] const Status& status() const { return status_; }
  // The word as it was last seen.
  [[nodiscard]] const LockWord& seen() const { return seen_; }
  // Held by take_over(): what the lock protects may be half changed.
  [[nodiscard]] bool inherited() const { return inherited_; }
  [[nodiscard]] bool busy() const { return in_flight_; }

 private:
  void choose_swap();
  [[nodiscard]] bool looks() const { return expected_ == desired_; }
  void take_answer(const LockWord& found, std::int64_t now_ns);
  void take_failure(const Status& status, std::int64_t now_ns);
  void wait(std::int64_t now_ns);
  void give_up();
  [[nodiscard]] bool has_deadline() const {
    return !is_given_up_ && (state_ == LockState::taking || state_ == LockState::releasing);
  }
  [[nodiscard]] Status late() const;

  Endpoint* path_;
  const Endpoint* posted_on_ = nullptr;
  const RemoteBuffer word_;
  LockAttempts& attempts_;
  const LockOptions options_;
  std::minstd_rand random_;

  LockState state_ = LockState::idle;
  bool in_flight_ = false;
  bool is_stale_ = false;  // the swap in flight is of a call that lose() has ended
  bool in_doubt_ = false;  // the swap was lost: {expected_, desired_} is asked for once more
  bool answered_ = false;  // seen_ is of this acquire()
  bool inherited_ = false;
  bool is_given_up_ = false;
  LockWord seen_;
  std::optional<LockWord> dead_;
  LockWord expected_;
  LockWord desired_;  // while held: the word
  std::uint64_t found_ = 0;
  std::uint32_t attempt_ = 0;
  std::int64_t deadline_ns_ = 0;
  std::int64_t wait_ns_ = 0;
  std::int64_t again_ns_ = 0;
  Status status_;
};

// Several locks as one. They are taken one after the other in the order given; if all ranks give
// theirs in the same order (of the owners' ranks), none waits in a circle. Whoever drives the locks
// drives them all the same: this only begins each when the one before is held, and gives back what
// was taken when one fails. A lock that was lost without an error is passed over.
class LockGroup {
 public:
  // The locks outlive the group.
  explicit LockGroup(std::vector<Lock*> locks) : locks_(std::move(locks)) {}

  // All by the same deadline. invalid_argument if one is not idle. Then call advance() after each
  // turn of the locks: held once all are, idle once none is, but for those that are settling.
  Status acquire(std::int64_t deadline_ns);
  Status release(std::int64_t deadline_ns = Lock::kNever);
  void advance();

  // taking, held, releasing (what was taken is given back) or idle.
  [[nodiscard]] LockState state() const { return state_; }
  // Why the last acquire() or release() failed: the first lock's reason.
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  void begin_next();
  void give_back(const Status& why);

  const std::vector<Lock*> locks_;
  std::size_t begun_ = 0;
  std::int64_t deadline_ns_ = 0;
  LockState state_ = LockState::idle;
  Status status_;
};

}  // namespace weft
