// Meeting: a barrier in memory that all ranks of a measurement map, processes or threads.
//
// It is no part of what is measured: it lines the ranks up before a timed lap and keeps them from
// rewriting inputs that others still read. Everything that is compared meets here, so all see the
// same skew. Waiting spins while every rank has a core of its own and yields at once where it has
// not, because a spinning rank there keeps the one it waits for from running.
//
// One Meeting object per rank, used by one thread; the shared memory belongs to the caller.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "verbs/base/base.h"

namespace weft {

class Meeting {
 public:
  // What all ranks share: zeroed before the first use, 64-byte aligned.
  struct Shared {
    alignas(64) std::atomic<std::uint32_t> arrived;
    alignas(64) std::atomic<std::uint32_t> phase;
    std::atomic<std::uint32_t> abandoned;  // 1 + the rank that gave up, or 0
  };
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "must work between processes");

  Meeting(Shared& shared, int size, bool yields)
      : shared_(&shared), size_(static_cast<std::uint32_t>(size)), yields_(yields) {}

  // Returns when all ranks are here; timed_out after a minute, peer_left when one gave up.
  Status wait();
  // Tells the others that `rank` will not come any more.
  void abandon(Rank rank);
  // Waits, by the same rule and with the same errors, until `ready()`.
  template <class Ready>
  Status wait_until(Ready ready) const {
    if (ready()) return {};
    const Deadline deadline = Deadline::after_ms(kPatienceMs);
    for (int turn = 1; !ready(); ++turn) {
      pause();
      // The clock is read this seldom, so that what is waited for is seen at once.
      if (turn % 4096 == 0) WEFT_RETURN_IF_ERROR(check(deadline));
    }
    return {};
  }

 private:
  // Far above any lap; a rank that stays away longer has failed without a word.
  static constexpr std::int64_t kPatienceMs = 60'000;

  void pause() const;
  [[nodiscard]] Status check(const Deadline& deadline) const;

  Shared* shared_;
  std::uint32_t size_;
  bool yields_;
};

// More ranks than cores that this process may use?
[[nodiscard]] bool oversubscribed(int ranks);
// Binds the calling thread, and those it starts, to the core of its turn: number `index` modulo
// their count. A thread that its launcher has bound to one core already stays there.
Status bind_to_core(int index);
// Lets the calling thread run on every core again.
Status unbind();
// Is the calling thread bound to one core of several?
[[nodiscard]] bool is_bound_to_core();
// The cores that the machine has online.
[[nodiscard]] int core_count();

}  // namespace weft
