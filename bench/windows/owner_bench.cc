// What the owner of memory does makes no difference to those who use it: works on the window of a
// rank that waits in a call of the window, of one that sleeps, and of one that is stopped.
//
//   weft run -n 2 -- bench_window_owner SECONDS BYTES
//
// Rank 1 sleeps, or is stopped by SIGSTOP. Rank 0 meanwhile times puts, gets and accumulates, 1,000
// of each in a row and again until so many seconds are over. Then it lets rank 1 go on, and prints
// one JSON object for each kind of work and state of rank 1.
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/context/context.h"

namespace {

using weft::Context;
using weft::Rank;
using weft::Status;
using weft::Window;

constexpr int kInARow = 1000;
constexpr int kEndSignal = 0;
constexpr Rank kOrigin = 0;
constexpr Rank kOwner = 1;
constexpr double kPatience = 10;  // seconds, until the owner has stopped
constexpr double kLongest = 200;  // seconds, of all works in one state of the owner
constexpr long kNapNs = 100'000'000;
constexpr std::array<std::string_view, 3> kWays = {"waits", "sleeps", "stopped"};
constexpr std::array<std::string_view, 3> kWorks = {"win_put", "win_get", "win_accumulate"};

double seconds_since(std::int64_t begin_ns) {
  return static_cast<double>(weft::now_ns() - begin_ns) / 1e9;
}

// As /proc has it: 'T' is stopped.
char state_of(pid_t process) {
  std::ifstream stat(fmt::format("/proc/{}/stat", process));
  std::string word;
  while (stat >> word && word.back() != ')') continue;
  return stat >> word ? word.front() : '\0';
}

class OwnerBench {
 public:
  OwnerBench(Context& context, double seconds, std::size_t count)
      : context_(context), seconds_(seconds), count_(count) {}

  Status run() {
    WEFT_ASSIGN(const weft::Graph graph, weft::fully_connected_graph(context_.size()));
    WEFT_RETURN_IF_ERROR(context_.set_graph(graph));
    WEFT_ASSIGN(weft::Memory memory, weft::Memory::allocate(2 * count_ * sizeof(float)));
    x_ = weft::out(memory.as<float>(), count_);
    std::fill_n(memory.as<float>(), 2 * count_, 0.0F);
    const weft::Output tensor = weft::out(memory.as<float>() + count_, count_);
    WEFT_ASSIGN(window_, context_.win_create(tensor, "owner"));
    for (const std::string_view way : kWays) {
      WEFT_RETURN_IF_ERROR(context_.barrier());
      WEFT_RETURN_IF_ERROR(context_.rank() == kOrigin ? use(way) : own(way));
    }
    WEFT_RETURN_IF_ERROR(context_.barrier());
    return context_.win_free_all();
  }

 private:
  // The owner tells its process first, which is 0 if it will not stop.
  Status own(std::string_view way) {
    const std::int32_t process = way == "stopped" ? ::getpid() : 0;
    WEFT_RETURN_IF_ERROR(context_.send(weft::in(&process, 1), kOrigin));
    if (way == "stopped") {
      (void)::raise(SIGSTOP);
      return {};
    }
    ++ends_;
    return way == "waits" ? wait_for_end() : sleep_until_end();
  }

  // One wait lasts at most Config::deadline_ms.
  Status wait_for_end() {
    const std::int64_t begin = weft::now_ns();
    for (;;) {
      Status heard = window_.wait_signal(kEndSignal, ends_);
      const bool is_late = seconds_since(begin) > kLongest;
      if (heard.code() != weft::Code::timed_out || is_late) return heard;
    }
  }

  Status sleep_until_end() {
    const std::int64_t begin = weft::now_ns();
    while (seconds_since(begin) < kLongest) {
      const timespec nap{0, kNapNs};
      (void)::nanosleep(&nap, nullptr);
      WEFT_ASSIGN(const std::uint64_t raised, window_.signal(kEndSignal));
      if (raised >= ends_) return {};
    }
    return Status(weft::Code::timed_out, "rank 0 has not told the end of its works");
  }

  Status use(std::string_view way) {
    std::int32_t process = 0;
    WEFT_RETURN_IF_ERROR(context_.recv(weft::out(&process, 1), kOwner));
    const std::int64_t begin = weft::now_ns();
    while (process != 0 && state_of(process) != 'T') {
      if (seconds_since(begin) > kPatience)
        return Status(weft::Code::unavailable, "rank 1 does not stop");
      ::sched_yield();
    }
    const Status used = work_for_a_while(way);
    if (process != 0) ::kill(process, SIGCONT);
    WEFT_RETURN_IF_ERROR(used);
    if (process != 0) return {};
    const weft::WindowPage first{};
    return window_.write(kOwner, weft::Input{x_.data, x_.count, x_.type}, std::span(&first, 1),
                         sizeof(float), kEndSignal);
  }

  Status work_for_a_while(std::string_view way) {
    std::array<std::vector<double>, kWorks.size()> us;
    const std::int64_t begin = weft::now_ns();
    do {
      for (std::size_t work = 0; work < kWorks.size(); ++work) {
        for (int i = 0; i < kInARow; ++i) {
          const std::int64_t from = weft::now_ns();
          WEFT_RETURN_IF_ERROR(do_once(work));
          us[work].push_back(seconds_since(from) * 1e6);
        }
      }
    } while (seconds_since(begin) < seconds_);
    for (std::size_t work = 0; work < kWorks.size(); ++work) {
      std::ranges::sort(us[work]);
      const std::size_t count = us[work].size();
      fmt::print(R"({{"op":"{}","target":"{}","bytes":{},"calls":{},"p50_us":{:.2f},)"
                 R"("p99_us":{:.2f},"max_us":{:.2f}}})"
                 "\n",
                 kWorks[work], way, count_ * sizeof(float), count, us[work][count / 2],
                 us[work][count * 99 / 100], us[work].back());
    }
    return {};
  }

  Status do_once(std::size_t work) {
    if (work == 0) return window_.put(x_);
    return work == 1 ? window_.get() : window_.accumulate(x_);
  }

  Context& context_;
  double seconds_;
  std::size_t count_;
  weft::Output x_;
  Window window_;
  std::uint64_t ends_ = 0;  // that the owner has waited for
};

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc == 3 ? std::atof(argv[1]) : 0;
  const std::size_t bytes = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (!(seconds >= 1) || bytes < sizeof(float)) {
    fmt::print(stderr, "usage: weft run -n 2 -- {} SECONDS BYTES\n", argv[0]);
    return 2;
  }
  const auto context = Context::from_environment();
  if (context.ok() && (*context)->size() != 2) {
    fmt::print(stderr, "bench_window_owner: needs two ranks, and has {}\n", (*context)->size());
    return 2;
  }
  const Status status =
      context.ok() ? OwnerBench(**context, seconds, bytes / sizeof(float)).run() : context.status();
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_window_owner: {}\n", status.to_string());
  return 1;
}
