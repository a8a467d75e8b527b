// progress: who drives a lane, and how a waiter waits.
//
// A Lane has one owner at a time, held in an atomic token: its thread, or a caller that waits. The
// owner alone may touch the lane's interfaces and operations. A Backoff says what a waiter that
// found nothing does next: spin while there are cores for it, then yield, then sleep.
#pragma once

#include <atomic>
#include <cstdint>

#include "verbs/base/base.h"

namespace weft {

// Cores that this process may run on (its affinity mask, or the machine).
[[nodiscard]] int usable_cores();

struct WaitPolicy {
  std::int64_t spin_ns = 0;          // busy polling
  std::int64_t yield_ns = 0;         // then polling between yields
  std::int64_t sleep_ns = 0;         // then sleeps of at most this
  std::uint32_t polls_per_turn = 1;  // between two looks at the clock, or two yields
};

// Negative spin or yield times mean: by rule. With a core per rank a waiter may spin for as long as
// a wake-up costs (a wake across cores of a virtual machine takes ~30 us; spinning longer gains
// nothing on average). With more ranks than cores every spin keeps the peer that is waited for from
// running, so it yields at once; a yield hands over in ~1.5 us where a wake-up takes ~30, so it
// yields for long before it sleeps.
[[nodiscard]] WaitPolicy wait_policy(int ranks_here, int cores, std::int64_t spin_ns,
                                     std::int64_t yield_ns);

// The same for a thread that works beside callers that compute. `threads`: callers and threads of
// this kind on this machine. If they are more than its cores, each yield takes a part of a caller's
// core, and polling for 200 us costs the caller 100 us. The thread therefore yields only for about
// as long as a sleep and a wake-up cost, and then sleeps.
[[nodiscard]] WaitPolicy background_policy(int threads, int cores, std::int64_t spin_ns,
                                           std::int64_t yield_ns);

// One wait. A value on the waiter's stack.
class Backoff {
 public:
  enum class Next : std::uint8_t { again, slow, sleep };

  explicit Backoff(const WaitPolicy& policy) : policy_(policy) {}

  // Called after a poll that found nothing. `core_is_wanted`: what is waited for needs this very
  // core, so polling again before a yield is in vain. Spins or yields by itself; `slow`, about once
  // per millisecond of waiting, asks the caller to look at the unlikely (deaths, deadlines,
  // strangers); `sleep` asks it to sleep.
  Next next(bool core_is_wanted = false);
  // Something was found: the next wait starts anew.
  void reset() { rounds_ = 0; }

 private:
  static constexpr std::uint32_t kPausesPerClock =
      32;  // how often a spinning waiter reads the clock
  static constexpr std::int64_t kSlowNs = 1'000'000;

  const WaitPolicy& policy_;
  std::uint32_t rounds_ = 0;
  std::int64_t started_ns_ = 0;
  std::int64_t slow_at_ns_ = 0;
};

// The right to drive a lane.
class LaneToken {
 public:
  [[nodiscard]] bool try_acquire() {
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }
  // Waits for the token; the owner sees wanted() and should let go soon. `wake_owner` is called
  // once wanted() can be seen, if the token is held: its owner may be asleep.
  template <typename Wake>
  void acquire(Wake&& wake_owner) {
    if (try_acquire()) return;
    wanted_.fetch_add(1, std::memory_order_seq_cst);
    wake_owner();
    wait_until_acquired();
    wanted_.fetch_sub(1, std::memory_order_relaxed);
  }
  void acquire() {
    acquire([] {});
  }
  void release() { held_.store(false, std::memory_order_release); }
  // Lets somebody who wants the token have it, and takes it back.
  void lend();
  [[nodiscard]] bool wanted() const { return wanted_.load(std::memory_order_relaxed) != 0; }

 private:
  void wait_until_acquired();

  std::atomic<bool> held_{false};
  std::atomic<std::uint32_t> wanted_{0};
};

}  // namespace weft
