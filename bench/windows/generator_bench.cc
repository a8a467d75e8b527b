// bench_generator: what the generator of partial all-reduce costs a worker in the critical path of its iteration.
//
//   weft run -n 4 -- bench_generator COMPUTE_MS SECONDS
//
// A worker sleeps COMPUTE_MS as if it computed. All others sleep 20 times as long, so after a while it averages with
// nobody: its calls of begin() and average() are then the generator's cost alone. The generator is on another rank.
// The worker prints one JSON line: the median of these calls beside the step, and messages of an iteration.
#include <fmt/core.h>
#include <weft/algorithms.h>
#include <weft/context.h>
#include <weft/macros.h>
#include <weft/memory.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;
using weft::Status;

constexpr int kTimesSlower = 20;
constexpr std::size_t kCount = 65536;

Status run(weft::Context& context, double compute_ms, double seconds) {
  WEFT_ASSIGN(const weft::Memory memory, weft::Memory::allocate(kCount * sizeof(float)));
  WEFT_ASSIGN(weft::PartialAllreduce partial,
              weft::PartialAllreduce::create(context, weft::out(memory.as<float>(), kCount)));
  const bool is_fast = context.rank() == context.size() - 1;
  const std::chrono::duration<double, std::milli> compute(compute_ms *
                                                          (is_fast ? 1 : kTimesSlower));
  std::vector<double> alone_us;
  std::uint64_t iterations = 0;
  WEFT_RETURN_IF_ERROR(context.barrier());
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (; Clock::now() < end; ++iterations) {
    const auto asked = Clock::now();
    WEFT_RETURN_IF_ERROR(partial.begin());
    const auto begun = Clock::now();
    std::this_thread::sleep_for(compute);
    const auto computed = Clock::now();
    WEFT_ASSIGN(const std::vector<weft::Rank> group, partial.average());
    if (group.size() == 1)
      alone_us.push_back(Microseconds((Clock::now() - computed) + (begun - asked)).count());
  }
  const weft::PartialAllreduce::Usage usage = partial.usage();
  WEFT_RETURN_IF_ERROR(partial.end());
  if (!is_fast) return {};
  if (alone_us.empty()) return {weft::Code::unavailable, "the fast worker was never alone"};
  std::ranges::sort(alone_us);
  const auto per_iteration = [&](std::uint64_t messages) {
    return static_cast<double>(messages) / static_cast<double>(iterations);
  };
  fmt::print(
      "{{\"op\":\"generator\",\"ranks\":{},\"alone\":{},\"p50_us\":{:.1f},\"p99_us\":{:.1f},"
      "\"share\":{:.5f},\"sent\":{:.2f},\"received\":{:.2f}}}\n",
      context.size(), alone_us.size(), alone_us[alone_us.size() / 2],
      alone_us[alone_us.size() * 99 / 100], alone_us[alone_us.size() / 2] / 1000 / compute_ms,
      per_iteration(usage.messages_sent), per_iteration(usage.messages_received));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto context = weft::Context::from_environment();
  const Status status =
      context.ok() ? run(**context, std::atof(argv[1]), std::atof(argv[2])) : context.status();
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_generator: {}\n", status.to_string());
  return 1;
}
