// Sleeping and waking across processes, on a futex in the sleeper's control block.
//
// A poster must not pay a full memory fence per message to learn whether its peer sleeps. So the
// sleeper pays: it sets the word in its control block, makes every running thread of every Weft
// process pass a barrier (membarrier), and looks for messages once more. If a poster did not see
// the word, its message was visible before that last look. If the kernel lacks membarrier, sleeps
// are kept short instead.
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
#include <string>

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

// A pipe as one descriptor that both reads and writes, as have its copies in other processes. So the
// pipe never lacks a reader: who writes after its owner has died is not killed by SIGPIPE. Peers
// cannot open an eventfd through /proc.
Result<Fd> open_bell() {
  int ends[2];
  if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return system_error("a pipe to be woken by", errno);
  const Fd reader(ends[0]), writer(ends[1]);
  const std::string path = fmt::format("/proc/self/fd/{}", reader.get());
  Fd both(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!both.valid()) return system_error("opening " + path + " to be woken by", errno);
  return both;
}

}  // namespace

void Bell::ring(const ControlBlock& block) {
  const std::int32_t number = block.bell.load(std::memory_order_acquire);
  if (number < 0) return;
  if (heap_ && !copy_.valid()) {
    if (Result<Fd> copy = heap_->descriptor(number); copy.ok()) copy_ = *std::move(copy);
  }
  // A full pipe wakes as well. SIGPIPE cannot come, because the descriptor is a reader, too.
  [[maybe_unused]] const ssize_t written = ::write(heap_ ? copy_.get() : number, "", 1);
}

void wake_owner(ControlBlock& block, Bell& bell) {
  switch (block.sleeping.exchange(kAwake, std::memory_order_acq_rel)) {
    case kOnFutex:
      futex(block.sleeping, FUTEX_WAKE, INT_MAX, nullptr);
      break;
    case kOnBell:
      bell.ring(block);
      break;
    default:
      break;
  }
}

void ShmInterface::wake() {
  const std::lock_guard lock(bell_mutex_);
  wake_owner(*block_, own_bell_);
}

void ShmInterface::sleep(std::int64_t timeout_ns, const std::function<bool()>& ready) {
  block_->sleeping.exchange(kOnFutex, std::memory_order_seq_cst);
  const bool safe = barrier_everywhere();
  if (!ready()) {
    const std::int64_t ns = safe ? timeout_ns : std::min(timeout_ns, kBlindSleepNs);
    const timespec timeout{ns / 1'000'000'000, ns % 1'000'000'000};
    futex(block_->sleeping, FUTEX_WAIT, kOnFutex, &timeout);
  }
  block_->sleeping.store(kAwake, std::memory_order_relaxed);
}

Result<int> ShmInterface::descriptor() {
  if (!bell_.valid()) {
    WEFT_ASSIGN(bell_, open_bell());
    offer_descriptor(bell_.get());
    block_->bell.store(bell_.get(), std::memory_order_release);
  }
  return bell_.get();
}

// The interface cannot tell whether notices have come. So the caller of arm() looks at its
// endpoints once more before it polls.
bool ShmInterface::arm() {
  const bool has_bell = descriptor().ok();
  block_->sleeping.exchange(kOnBell, std::memory_order_seq_cst);
  return barrier_everywhere() && has_bell;
}

void ShmInterface::disarm() {
  block_->sleeping.store(kAwake, std::memory_order_relaxed);
  std::array<char, 64> rung;
  while (::read(bell_.get(), rung.data(), rung.size()) == static_cast<ssize_t>(rung.size())) {
  }
}

}  // namespace weft::shm
