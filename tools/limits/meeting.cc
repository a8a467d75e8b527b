// The barrier: a counter and a phase; the last to arrive opens the next phase for all.
#include "tools/limits/meeting.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace weft {

void Meeting::pause() const {
  if (yields_) {
    sched_yield();
  } else {
    __builtin_ia32_pause();
  }
}

Status Meeting::check(const Deadline& deadline) const {
  const std::uint32_t gone = shared_->abandoned.load(std::memory_order_relaxed);
  if (gone != 0) {
    const Rank rank = static_cast<Rank>(gone - 1);
    return Status(Code::peer_left, "rank " + std::to_string(rank) + " gave up the measurement",
                  rank);
  }
  if (!deadline.passed()) return {};
  return Status(Code::timed_out, "not all " + std::to_string(size_) +
                                     " ranks came to the next lap of the measurement");
}

Status Meeting::wait() {
  const std::uint32_t phase = shared_->phase.load(std::memory_order_relaxed);
  if (shared_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    shared_->arrived.store(0, std::memory_order_relaxed);
    shared_->phase.store(phase + 1, std::memory_order_release);
    return {};
  }
  return wait_until([&] { return shared_->phase.load(std::memory_order_acquire) != phase; });
}

void Meeting::abandon(Rank rank) {
  std::uint32_t nobody = 0;
  shared_->abandoned.compare_exchange_strong(nobody, static_cast<std::uint32_t>(rank) + 1,
                                             std::memory_order_relaxed);
}

int core_count() {
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

bool oversubscribed(int ranks) {
  return ranks > core_count();
}

Status bind_to_core(int index) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return system_error("sched_getaffinity", errno);
  }
  const int count = CPU_COUNT(&allowed);
  if (count <= 1) return {};
  int skip = index % count;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || skip-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) {
      return system_error("sched_setaffinity to core " + std::to_string(core), errno);
    }
    return {};
  }
  return {};
}

bool is_bound_to_core() {
  cpu_set_t allowed;
  return core_count() > 1 && sched_getaffinity(0, sizeof(allowed), &allowed) == 0 &&
         CPU_COUNT(&allowed) == 1;
}

Status unbind() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &all);
  return sched_setaffinity(0, sizeof(all), &all) == 0 ? Status{}
                                                      : system_error("sched_setaffinity", errno);
}

}  // namespace weft
