// Sleeping and waking across processes, on a futex in the sleeper's hall.
//
// A poster must not pay a full memory fence per message to learn whether its peer sleeps. So the
// sleeper pays: it sets the word in its hall, makes every running thread of every Weft process pass
// a barrier (membarrier), and looks for messages once more. If a poster did not see the word, its
// message was visible before that last look. If the kernel lacks membarrier, sleeps are kept short
// instead.
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

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

void Bell::ring(const Hall& hall) {
  const std::int32_t number = hall.bell.load(std::memory_order_acquire);
  if (number < 0) return;
  if (heap_ && !end_.valid()) {
    if (Result<Fd> end = heap_->descriptor(number); end.ok()) end_ = *std::move(end);
  }
  // A full pipe wakes as well; an owner that is gone needs no waking.
  [[maybe_unused]] const ssize_t written = ::write(heap_ ? end_.get() : number, "", 1);
}

void wake_owner(Hall& hall, Bell& bell) {
  switch (hall.sleeping.exchange(kAwake, std::memory_order_acq_rel)) {
    case kOnFutex:
      futex(hall.sleeping, FUTEX_WAKE, INT_MAX, nullptr);
      break;
    case kOnBell:
      bell.ring(hall);
      break;
    default:
      break;
  }
}

void ShmInterface::wake() {
  const std::lock_guard lock(bell_mutex_);
  wake_owner(*hall_, own_bell_);
}

void ShmInterface::sleep(std::int64_t timeout_ns, const std::function<bool()>& ready) {
  hall_->sleeping.exchange(kOnFutex, std::memory_order_seq_cst);
  const bool safe = barrier_everywhere();
  if (!ready()) {
    const std::int64_t ns = safe ? timeout_ns : std::min(timeout_ns, kBlindSleepNs);
    const timespec timeout{ns / 1'000'000'000, ns % 1'000'000'000};
    futex(hall_->sleeping, FUTEX_WAIT, kOnFutex, &timeout);
  }
  hall_->sleeping.store(kAwake, std::memory_order_relaxed);
}

Result<int> ShmInterface::descriptor() {
  if (!bell_heard_.valid()) {
    int ends[2];
    if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) {
      return Status(Code::system, fmt::format("no pipe to be woken by: {}", std::strerror(errno)));
    }
    bell_heard_ = Fd(ends[0]);
    bell_held_ = Fd(ends[1]);
    offer_descriptor(ends[1]);
    hall_->bell.store(ends[1], std::memory_order_release);
  }
  return bell_heard_.get();
}

// The interface cannot tell whether notices have come. So the caller of arm() looks at its
// endpoints once more before it polls.
bool ShmInterface::arm() {
  hall_->sleeping.exchange(kOnBell, std::memory_order_seq_cst);
  return barrier_everywhere();
}

void ShmInterface::disarm() {
  hall_->sleeping.store(kAwake, std::memory_order_relaxed);
  std::array<char, 64> rung;
  while (::read(bell_heard_.get(), rung.data(), rung.size()) == static_cast<ssize_t>(rung.size())) {
  }
}

}  // namespace weft::shm
