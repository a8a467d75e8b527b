// Waiting by rule.
#include "verbs/progress/progress.h"

#include <sched.h>

#include <chrono>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft {
namespace {

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// What a sleeping thread costs to wake, and so what spinning may cost at most.
constexpr std::int64_t kWakeNs = 50'000;
// Polls per turn. With a core of its own a waiter looks at the clock rarely. On a shared core a few
// polls still come before each yield: the peer may run on another core, and what it posts takes up
// to 300 ns to get here.
constexpr std::uint32_t kPollsOwn = 64;
constexpr std::uint32_t kPollsShared = 8;
// A pause costs 26 ns here, a third of what a message needs to get to the next core; so it is rare.
constexpr std::uint32_t kRoundsPerPause = 4;
// How long to yield before sleeping: an oversubscribed core has someone else to run, an own core
// has not.
constexpr std::int64_t kYieldSharedNs = 2'000'000;
constexpr std::int64_t kYieldOwnNs = 200'000;
constexpr std::int64_t kYieldBackgroundNs = 20'000;
// Bounds how late a waiter sees what wakes nobody (a death, a deadline).
constexpr std::int64_t kSleepNs = 20'000'000;
// Waiting for a lane's token: yields first, then naps.
constexpr int kYieldsForToken = 1000;
constexpr std::int64_t kTokenNapNs = 50'000;

}  // namespace

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  const unsigned cores = std::thread::hardware_concurrency();
  return cores == 0 ? 1 : static_cast<int>(cores);
}

WaitPolicy wait_policy(int ranks_here, int cores, std::int64_t spin_ns, std::int64_t yield_ns) {
  const bool shared = ranks_here > cores;
  return {spin_ns >= 0 ? spin_ns : (shared ? 0 : kWakeNs),
          yield_ns >= 0 ? yield_ns : (shared ? kYieldSharedNs : kYieldOwnNs), kSleepNs,
          shared ? kPollsShared : kPollsOwn};
}

WaitPolicy background_policy(int threads, int cores, std::int64_t spin_ns, std::int64_t yield_ns) {
  WaitPolicy policy = wait_policy(threads, cores, spin_ns, yield_ns);
  if (threads > cores && yield_ns < 0) policy.yield_ns = kYieldBackgroundNs;
  return policy;
}

Backoff::Next Backoff::next(bool core_is_wanted) {
  rounds_ = core_is_wanted ? (rounds_ / policy_.polls_per_turn + 1) * policy_.polls_per_turn
                           : rounds_ + 1;
  if (rounds_ % policy_.polls_per_turn != 0) {
    if (rounds_ % kRoundsPerPause == 0) pause();
    return Next::again;
  }
  const std::int64_t now = now_ns();
  if (rounds_ == policy_.polls_per_turn) {
    started_ns_ = now;
    slow_at_ns_ = now + kSlowNs;
  }
  const std::int64_t waited = now - started_ns_;
  if (waited > policy_.spin_ns + policy_.yield_ns) return Next::sleep;
  if (core_is_wanted || waited >= policy_.spin_ns) sched_yield();
  if (now < slow_at_ns_) return Next::again;
  slow_at_ns_ = now + kSlowNs;
  return Next::slow;
}

// The owner releases with a plain store: a locked one would stall the hot path until all its
// earlier stores have reached the other core. So nobody is woken, and whoever waits here looks
// again and again; owners let go soon.
void LaneToken::wait_until_acquired() {
  for (int looks = 0; !try_acquire(); ++looks) {
    if (looks < kYieldsForToken) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::nanoseconds(kTokenNapNs));
    }
  }
}

// Whoever wants the token may be napping, so it stays free until it was taken, or for longer than a
// nap.
void LaneToken::lend() {
  release();
  const std::int64_t until = now_ns() + 4 * kTokenNapNs;
  while (wanted() && now_ns() < until) sched_yield();
  acquire();
}

}  // namespace weft
