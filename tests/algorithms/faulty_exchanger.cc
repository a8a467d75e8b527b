// One rank of a job that exchanges gradients, from which the last rank goes in the middle of an iteration;
// started by `weft run` from processes_test.cc.
//   faulty_exchanger killed RULE    rank 0 kills it
//   faulty_exchanger left RULE      it closes its context
// The others go on. Each rank prints how its job ended.
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/algorithms/algorithms.h"
#include "tests/context/faulty.h"

namespace {

using weft::Context;
using weft::EndedIteration;
using weft::GradientExchange;
using weft::Rank;
using weft::Status;

constexpr std::size_t kColayers[] = {20'000, 500};
constexpr std::size_t kCount = 20'500;
constexpr int kIterations = 30;

Status wrong(const std::string& what) {
  return {weft::Code::mismatch, what};
}

struct Job {
  Context& context;
  GradientExchange exchange;
  std::vector<float> slope, mean;
  bool has_begun = false;  // the next iteration

  weft::Result<EndedIteration> iterate() {
    if (!std::exchange(has_begun, false)) WEFT_RETURN_IF_ERROR(exchange.begin());
    WEFT_RETURN_IF_ERROR(exchange.push(0, weft::in(slope.data(), kColayers[0])));
    WEFT_RETURN_IF_ERROR(exchange.push(1, weft::in(slope.data(), kColayers[1])));
    return exchange.end_iteration(weft::out(mean.data(), kCount));
  }
};

// The last rank: stands still when it has sent the first colayer of an iteration, and is killed or goes.
Status go(Job& job, const std::string& how) {
  WEFT_RETURN_IF_ERROR(job.iterate().status());
  WEFT_RETURN_IF_ERROR(job.exchange.begin());
  WEFT_RETURN_IF_ERROR(job.exchange.push(0, weft::in(job.slope.data(), kColayers[0])));
  const std::uint8_t ready = 1;
  WEFT_RETURN_IF_ERROR(job.context.send(weft::in(&ready, 1), 0));
  if (how == "killed") pause();
  return {};
}

// Until the last rank no more contributes, which may take some iterations, and some more.
Status go_on(Job& job) {
  const int others = job.context.size() - 1;
  int alone = 0;
  for (int iteration = 0; alone < kIterations && iteration < 1'000'000; ++iteration) {
    WEFT_ASSIGN(const EndedIteration ended, job.iterate());
    if (ended.is_dropped) continue;
    for (const int contributors : ended.contributors) {
      if (contributors < 1 || contributors > others + 1) return wrong("contributors");
    }
    alone += ended.contributors[1] <= others ? 1 : 0;
    // All gradients are 1, but a rank that was ahead has sent several.
    if (!(job.mean[0] >= 1 && std::isfinite(job.mean[0]))) return wrong("the mean");
  }
  return alone == kIterations ? Status() : wrong("the last rank still contributes");
}

Status run(Context& context, const std::string& how, const std::string& rule) {
  const Rank last = context.size() - 1;
  std::vector<std::int32_t> processes(static_cast<std::size_t>(context.size()));
  const std::int32_t own = getpid();
  WEFT_RETURN_IF_ERROR(
      context.allgather(weft::in(&own, 1), weft::out(processes.data(), processes.size())));
  weft::GradientExchangeOptions options{.staleness = 2, .rate = 0.01};
  WEFT_ASSIGN(options.rule, weft::exchange_rule(rule));
  WEFT_ASSIGN(void* memory, weft::allocate(kCount * sizeof(float)));
  WEFT_ASSIGN(GradientExchange exchange,
              GradientExchange::create(context, weft::out(static_cast<float*>(memory), kCount),
                                       kColayers, options));
  Job job{context, std::move(exchange), std::vector<float>(kCount, 1.0F),
          std::vector<float>(kCount)};
  if (context.rank() == last) return go(job, how);
  if (context.rank() == 0) {
    WEFT_RETURN_IF_ERROR(job.iterate().status());
    WEFT_RETURN_IF_ERROR(job.exchange.begin());  // under `bulk` the last rank waits for it
    job.has_begun = true;
    std::uint8_t ready = 0;
    WEFT_RETURN_IF_ERROR(context.recv(weft::out(&ready, 1), last));
    if (how == "killed") kill(processes.back(), SIGKILL);
  }
  return go_on(job);
}

}  // namespace

int main(int argc, char** argv) {
  return weft::test::run_rank([&](Context& context) {
    return run(context, argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
  });
}
