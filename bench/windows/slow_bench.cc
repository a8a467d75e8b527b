// What one slow rank does to the others: steps of training in a second, with every rank equally fast
// and with the last one five times as slow.
//
//   weft run -n 4 -- bench_slow_rank SECONDS
//
// A step computes (it sleeps, so that ranks that share cores do not slow each other) and then
// averages a model of 64 KiB: by allreduce, by push-sum that waits for nobody, or by AD-PSGD. Prints
// one JSON object for each method. Also prints how far push-sum's mean over the one-peer
// exponential schedule is from the exact one after log2 n steps.
#include <fmt/format.h>
#include <time.h>
#include <weft/algorithms.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/context/context.h"

namespace {

using weft::Context;
using weft::Status;

constexpr std::size_t kCount = 16 << 10;
constexpr long kComputeNs = 2'000'000;
constexpr long kTimesSlower = 5;

void compute(bool is_slow) {
  const timespec nap{0, is_slow ? kTimesSlower * kComputeNs : kComputeNs};
  (void)nanosleep(&nap, nullptr);
}

// How many steps the first rank makes in a second. All ranks stop after so many seconds; a
// synchronous method makes them stop at the same step.
using Step = std::function<Status()>;
weft::Result<double> rate(Context& context, double seconds, bool has_slow, bool is_synchronous,
                          const Step& step) {
  WEFT_RETURN_IF_ERROR(context.barrier());
  const bool is_slow = has_slow && context.rank() == context.size() - 1;
  const std::int64_t begin = weft::now_ns();
  int steps = 0;
  for (bool goes_on = true; goes_on; ++steps) {
    compute(is_slow);
    WEFT_RETURN_IF_ERROR(step());
    goes_on = static_cast<double>(weft::now_ns() - begin) < seconds * 1e9;
    if (!is_synchronous) continue;
    std::uint8_t word = goes_on ? 1 : 0;
    WEFT_RETURN_IF_ERROR(context.broadcast(weft::in(&word, 1), weft::out(&word, 1), 0));
    goes_on = word != 0;
  }
  const double made = steps / (static_cast<double>(weft::now_ns() - begin) / 1e9);
  // A slow rank may still be in its step.
  WEFT_RETURN_IF_ERROR(context.barrier());
  return made;
}

Status measure(Context& context, std::string_view method, double seconds, bool is_synchronous,
               const Step& step) {
  WEFT_ASSIGN(const double equal, rate(context, seconds, false, is_synchronous, step));
  WEFT_ASSIGN(const double beside, rate(context, seconds, true, is_synchronous, step));
  if (context.rank() != 0) return {};
  fmt::print(
      "{{\"op\":\"slow_rank\",\"method\":\"{}\",\"ranks\":{},\"slower\":{},\"steps_per_s\":"
      "{:.1f},\"steps_per_s_beside_slow\":{:.1f},\"kept\":{:.3f}}}\n",
      method, context.size(), kTimesSlower, equal, beside, beside / equal);
  return {};
}

Status exact_mean(Context& context) {
  WEFT_ASSIGN(const weft::Schedule schedule, weft::one_peer_exponential(context.size()));
  WEFT_ASSIGN(const weft::Memory memory, weft::Memory::allocate(sizeof(double)));
  auto* x = memory.as<double>();
  *x = context.rank();
  WEFT_ASSIGN(weft::PushSum push_sum,
              weft::PushSum::create(context, schedule, weft::out(x, 1), {.name = "exact"}));
  const int steps = static_cast<int>(std::lround(std::log2(context.size())));
  for (int step = 0; step < steps; ++step) WEFT_RETURN_IF_ERROR(push_sum.step());
  double z = 0;
  WEFT_RETURN_IF_ERROR(push_sum.debias(weft::out(&z, 1)));
  double error = std::abs(z - (context.size() - 1) / 2.0);
  WEFT_RETURN_IF_ERROR(
      context.allreduce(weft::in(&error, 1), weft::out(&error, 1), weft::ReduceOp::max));
  if (context.rank() == 0) {
    fmt::print("{{\"op\":\"exact_mean\",\"ranks\":{},\"steps\":{},\"error\":{:.3g}}}\n",
               context.size(), steps, error);
  }
  return push_sum.end();
}

Status run(Context& context, double seconds) {
  WEFT_RETURN_IF_ERROR(exact_mean(context));
  WEFT_ASSIGN(const weft::Memory memory, weft::Memory::allocate(2 * kCount * sizeof(float)));
  auto* x = memory.as<float>();
  const weft::Output model = weft::out(x, kCount);
  WEFT_RETURN_IF_ERROR(measure(context, "allreduce", seconds, true,
                               [&] { return context.allreduce(weft::in(x, kCount), model); }));
  {
    WEFT_ASSIGN(const weft::Schedule schedule, weft::one_peer_exponential(context.size()));
    WEFT_ASSIGN(weft::PushSum push_sum,
                weft::PushSum::create(context, schedule, model,
                                      {.name = "push_sum", .lag = weft::kAnyLag}));
    WEFT_RETURN_IF_ERROR(
        measure(context, "push_sum", seconds, false, [&] { return push_sum.step(); }));
    WEFT_RETURN_IF_ERROR(push_sum.end());
  }
  WEFT_ASSIGN(weft::AdPsgd gossip, weft::AdPsgd::create(context, model));
  WEFT_RETURN_IF_ERROR(
      measure(context, "ad_psgd", seconds, false, [&] { return gossip.average().status(); }));
  return gossip.end();
}

}  // namespace

int main(int argc, char** argv) {
  auto context = weft::Context::from_environment();
  const Status status =
      context.ok() ? run(**context, argc > 1 ? std::atof(argv[1]) : 2.0) : context.status();
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_slow_rank: {}\n", status.to_string());
  return 1;
}
