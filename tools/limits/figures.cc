// Small loops around one mechanism each: a cache line, the scheduler, a futex, a copy.
#include "tools/limits/figures.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "engine/kernels/kernels.h"
#include "tools/limits/laps.h"
#include "tools/limits/meeting.h"

namespace weft {
namespace {

constexpr int kRepeats = 7;  // of each figure; the median is told

void move_to(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(core), &one);
  // Refused where the core is not ours; the figure is then that of the cores the kernel chose.
  sched_setaffinity(0, sizeof(one), &one);
}

// A word that two threads hand to each other: each waits until it holds its own number.
struct Word {
  alignas(64) std::atomic<std::uint32_t> turn{0};
};

using Wait = void (*)(Word&, std::uint32_t);

void spin(Word& word, std::uint32_t turn) {
  while (word.turn.load(std::memory_order_acquire) != turn) __builtin_ia32_pause();
}

void yield(Word& word, std::uint32_t turn) {
  while (word.turn.load(std::memory_order_acquire) != turn) sched_yield();
}

// Runs each function on a thread of its own, or neither: false where the threads cannot be started.
bool run_both(const std::function<void()>& first, const std::function<void()>& second) {
  std::promise<bool> both_started;
  const std::shared_future<bool> go = both_started.get_future().share();
  const auto started = [&go](const std::function<void()>& function) {
    return start_thread("weft-figure", [go, &function] {
      if (go.get()) function();
    });
  };
  const Result<Thread> one = started(first);
  const Result<Thread> other = started(second);
  both_started.set_value(one.ok() && other.ok());
  return one.ok() && other.ok();  // after both have ended
}

// Nanoseconds per one-way hand-over between threads on two cores.
double hand_over_ns(CorePair cores, int rounds, Wait wait) {
  Word word;
  const auto answer = [&] {
    move_to(cores.second);
    for (int i = 0; i < rounds; ++i) {
      wait(word, 1);
      word.turn.store(0, std::memory_order_release);
    }
  };
  std::int64_t begin = 0;
  std::int64_t end = 0;
  const auto ask = [&] {
    move_to(cores.first);
    begin = now_ns();
    for (int i = 0; i < rounds; ++i) {
      word.turn.store(1, std::memory_order_release);
      wait(word, 0);
    }
    end = now_ns();
  };
  if (!run_both(answer, ask)) return 0;
  return static_cast<double>(end - begin) / rounds / 2;
}

double median_of(const std::function<double()>& figure) {
  std::vector<double> samples;
  for (int i = 0; i < kRepeats; ++i) samples.push_back(figure());
  return median(std::move(samples));
}

void futex(Word& word, int operation, std::uint32_t value) {
  static_assert(sizeof(word.turn) == sizeof(std::uint32_t));
  syscall(SYS_futex, &word.turn, operation, value, nullptr, nullptr, 0);
}

// One sleeper, woken once: how long until it has read the clock.
double wake_once_us(CorePair cores) {
  Word word;
  std::atomic<bool> sleeps{false};
  std::int64_t awake = 0;
  const auto sleep = [&] {
    move_to(cores.second);
    sleeps.store(true);
    while (word.turn.load(std::memory_order_acquire) == 0) futex(word, FUTEX_WAIT_PRIVATE, 0);
    awake = now_ns();
  };
  std::int64_t begin = 0;
  const auto wake = [&] {
    move_to(cores.first);
    while (!sleeps.load()) sched_yield();
    // The sleeper enters the kernel a moment after it says so; a millisecond is far more than it
    // needs.
    for (const Deadline asleep = Deadline::after_ms(1); !asleep.passed();) __builtin_ia32_pause();
    begin = now_ns();
    word.turn.store(1, std::memory_order_release);
    futex(word, FUTEX_WAKE_PRIVATE, 1);
  };
  if (!run_both(sleep, wake)) return 0;
  return static_cast<double>(awake - begin) / 1e3;
}

// Bytes per nanosecond of `copy`, from and to memory that was written before.
double copy_gbps(std::size_t bytes, const std::function<bool(std::byte*, std::byte*)>& copy) {
  const auto from = std::make_unique<std::byte[]>(bytes);
  const auto to = std::make_unique<std::byte[]>(bytes);
  std::memset(from.get(), 1, bytes);
  std::memset(to.get(), 2, bytes);
  const double ns = median_of([&] {
    const std::int64_t begin = now_ns();
    const bool done = copy(to.get(), from.get());
    return done ? static_cast<double>(now_ns() - begin) : 0;
  });
  return ns > 0 ? static_cast<double>(bytes) / ns : 0;
}

// A lane's sums alone: the engine's loop over arrays larger than most caches, on one core.
class CombineLoop {
 public:
  CombineLoop(int core, std::size_t bytes) : core_(core), count_(bytes / sizeof(float)) {
    for (std::unique_ptr<float[]>& array : arrays_) array = std::make_unique<float[]>(count_);
  }

  void run() {
    move_to(core_);
    combine_once();  // touches all memory
    begin_ns_ = static_cast<double>(now_ns());
    for (int i = 0; i < kRounds; ++i) combine_once();
    end_ns_ = static_cast<double>(now_ns());
  }
  // Of the last run.
  [[nodiscard]] double begin_ns() const { return begin_ns_; }
  [[nodiscard]] double end_ns() const { return end_ns_; }
  [[nodiscard]] double read_bytes() const {
    return 2.0 * kRounds * static_cast<double>(count_ * sizeof(float));
  }

 private:
  static constexpr int kRounds = 2;

  void combine_once() {
    const std::array<Term, 2> terms{{{arrays_[0].get(), 0.5}, {arrays_[1].get(), 0.5}}};
    combine(DataType::f32, Reduction::weighted_sum, terms, arrays_[2].get(), count_,
            StoreKind::streaming);
  }

  int core_;
  std::size_t count_;
  std::array<std::unique_ptr<float[]>, 3> arrays_;
  double begin_ns_ = 0;
  double end_ns_ = 0;
};

}  // namespace

CorePair first_cores() {
  return core_count() > 1 ? CorePair{0, 1} : CorePair{0, 0};
}

double ping_pong_ns(CorePair cores) {
  if (cores.first == cores.second) return 0;
  return median_of([&] { return hand_over_ns(cores, 2000, spin); });
}

double yield_us(int core) {
  return median_of([&] { return hand_over_ns({core, core}, 500, yield) / 1e3; });
}

double futex_wake_us(CorePair cores) {
  return median_of([&] { return wake_once_us(cores); });
}

double memcpy_gbps(std::size_t bytes) {
  return copy_gbps(bytes, [bytes](std::byte* to, std::byte* from) {
    std::memcpy(to, from, bytes);
    return true;
  });
}

double combine_gbps(CorePair cores, int threads, std::size_t bytes) {
  const bool is_shared = threads > 1;
  if (is_shared && cores.first == cores.second) return 0;
  CombineLoop one(cores.first, bytes);
  CombineLoop other(cores.second, is_shared ? bytes : 0);
  return median_of([&] {
    const auto beside = [&] {
      if (is_shared) other.run();
    };
    if (!run_both([&] { one.run(); }, beside)) return 0.0;
    if (!is_shared) return one.read_bytes() / (one.end_ns() - one.begin_ns());
    const double begin_ns = std::min(one.begin_ns(), other.begin_ns());
    const double end_ns = std::max(one.end_ns(), other.end_ns());
    return (one.read_bytes() + other.read_bytes()) / (end_ns - begin_ns);
  });
}

Result<double> readv_gbps(std::size_t bytes) {
  int error = 0;
  const double rate = copy_gbps(bytes, [&](std::byte* to, std::byte* from) {
    const iovec local{to, bytes};
    const iovec remote{from, bytes};
    const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (got < 0) error = errno;
    return got == static_cast<ssize_t>(bytes);
  });
  if (rate > 0) return rate;
  return system_error("process_vm_readv", error);
}

}  // namespace weft
