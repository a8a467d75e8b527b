// Meeting: a barrier in memory that all ranks of a measurement map, processes or threads.
//
// A meeting is not part of what is measured. It lines up the ranks before a timed lap, and keeps
// them from rewriting inputs that others still read. All operations that are compared use it, so
// all have the same skew. A waiting rank spins if every rank has a core of its own. Otherwise it
// yields at once, because a spinning rank would keep the rank that it waits for from running.
//
// There is one Meeting object per rank, used by one thread. The shared memory belongs to the
// caller.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "verbs/base/base.h"

namespace weft {

class Meeting {
 public:
  // The memory that all ranks share. It must be zero before the first use, and 64-byte aligned.
  struct Shared {
    alignas(64) std::atomic<std::uint32_t> arrived;
    alignas(64) std::atomic<std::uint32_t> phase;
    std::atomic<std::uint32_t> abandoned;  // 1 + the rank that gave up, or 0
  };
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "must work between processes");

  Meeting(Shared& shared, int size, bool yields)
      : shared_(&shared), size_(static_cast<std::uint32_t>(size)), yields_(yields) {}

  // Returns when all ranks have called it. timed_out after a minute; peer_left if a rank gave up.
  Status wait();
  // Tells the others that `rank` gives up.
  void abandon(Rank rank);
  // Waits until `ready()`, in the same way and with the same errors as wait().
  template <class Ready>
  Status wait_until(Ready ready) const {
    if (ready()) return {};
    const Deadline deadline = Deadline::after_ms(kPatienceMs);
    for (int turn = 1; !ready(); ++turn) {
      pause();
      // The clock is read only now and then, so that a change is seen at once.
      if (turn % 4096 == 0) WEFT_RETURN_IF_ERROR(check(deadline));
    }
    return {};
  }

 private:
  // Much longer than any lap. A rank that stays away longer has failed silently.
  static constexpr std::int64_t kPatienceMs = 60'000;

  void pause() const;
  [[nodiscard]] Status check(const Deadline& deadline) const;

  Shared* shared_;
  std::uint32_t size_;
  bool yields_;
};

// True if there are more ranks than cores that this process may use.
[[nodiscard]] bool oversubscribed(int ranks);
// Binds the calling thread, and the threads that it starts, to the allowed core number `index`
// modulo their count. A thread that its launcher has already bound to one core stays there.
Status bind_to_core(int index);
// Lets the calling thread run on every core again.
Status unbind();
// True if the calling thread is bound to one core of several.
[[nodiscard]] bool is_bound_to_core();
// The cores that the machine has online.
[[nodiscard]] int core_count();

}  // namespace weft
