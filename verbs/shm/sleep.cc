// Sleeping and waking across processes, on a futex in the sleeper's hall.
//
// A poster must not pay a full memory fence per message to learn whether its peer sleeps. So the
// sleeper pays: it sets its word, makes every running thread of every Weft process pass a barrier
// (membarrier), and looks once more. A poster that did not see the word had its message visible by
// then. Where the kernel lacks membarrier the sleep is cut short instead.
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "verbs/shm/interface.h"

namespace weft::shm {
namespace {

// The longest sleep when a wake-up could be missed.
constexpr std::int64_t kBlindSleepNs = 1'000'000;

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout,
                 nullptr, 0);
}

// Registers this process as one that barriers reach; once.
bool barrier_available() {
  static const bool available =
      syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  return available;
}

bool barrier_everywhere() {
  return barrier_available() && syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
}

// Every process that posts must be registered, not only those that sleep.
[[maybe_unused]] const bool registered_at_start = barrier_available();

}  // namespace

void wake_owner(Hall& hall) {
  if (hall.sleeping.exchange(0, std::memory_order_acq_rel) != 0) {
    futex(hall.sleeping, FUTEX_WAKE, INT_MAX, nullptr);
  }
}

void ShmInterface::wake() {
  wake_owner(*hall_);
}

void ShmInterface::sleep(std::int64_t timeout_ns, const std::function<bool()>& ready) {
  hall_->sleeping.exchange(1, std::memory_order_seq_cst);
  const bool safe = barrier_everywhere();
  if (!ready()) {
    const std::int64_t ns = safe ? timeout_ns : std::min(timeout_ns, kBlindSleepNs);
    const timespec timeout{ns / 1'000'000'000, ns % 1'000'000'000};
    futex(hall_->sleeping, FUTEX_WAIT, 1, &timeout);
  }
  hall_->sleeping.store(0, std::memory_order_relaxed);
}

}  // namespace weft::shm
