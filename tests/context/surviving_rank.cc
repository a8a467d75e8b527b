// One rank of a job that goes on when ranks die; started by `weft run` from survivors_test.cc.
//   surviving_rank shrink R…   the ranks R kill themselves one after the other, and those that are left shrink
//                              the context
//   surviving_rank skip R…     the same under WEFT_ON_DEATH=skip, while the others average with their neighbors
//   surviving_rank together R…  the same, and all R die in the same step
//   surviving_rank needing R…  the same, while the others call what needs all ranks, and then what does not
//   surviving_rank started R…  the same with three operations in flight
//   surviving_rank back R…     under `weft run --restart 1`: the ranks R come back, and go on where a neighbor is
// Each rank prints how its job ended and exits with 0: the test reads the lines.
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/context/faulty.h"

namespace {

using weft::Code;
using weft::Context;
using weft::Rank;
using weft::Status;

// The sum over the job's ranks that are left. `mine` is this rank's number in the job.
Status check_sum(Context& context, Rank mine, int expected) {
  for (int round = 0; round < 20; ++round) {
    const int x = 1 << mine;
    int sum = 0;
    WEFT_RETURN_IF_ERROR(
        context.allreduce(weft::in(&x, 1), weft::out(&sum, 1), weft::ReduceOp::sum));
    if (sum != expected) return Status(Code::system, "wrong sum " + std::to_string(sum));
  }
  return {};
}

Status shrink(Context& job, const std::vector<Rank>& culprits) {
  const Rank mine = job.rank();
  int expected = (1 << job.size()) - 1;
  std::unique_ptr<Context> made;
  Context* context = &job;
  WEFT_RETURN_IF_ERROR(check_sum(job, mine, expected));
  for (const Rank culprit : culprits) {
    if (mine == culprit) raise(SIGKILL);
    expected &= ~(1 << culprit);
    Status failed;
    while (failed.ok()) failed = context->barrier();
    if (failed.code() != Code::peer_died) return failed;
    while (true) {
      WEFT_ASSIGN(std::unique_ptr<Context> left, context->shrink());
      made = std::move(left);
      context = made.get();
      const Status checked = check_sum(*context, mine, expected);
      if (checked.ok()) break;
      if (checked.code() != Code::peer_died) return checked;
    }
  }
  std::printf("left %d of %d, as %d\n", context->size(), job.size(), context->rank());
  return context->barrier();
}

// Averages with the neighbors until all agree. The ranks `culprits` die on the way.
Status skip(Context& context, const std::vector<Rank>& culprits, std::size_t in_flight,
            bool together) {
  constexpr int kSteps = 60;
  constexpr std::size_t kCount = 3000;
  std::vector<std::vector<double>> x(in_flight, std::vector<double>(kCount, context.rank()));
  std::vector<weft::Handle> handles(in_flight);
  const auto steps = kSteps * static_cast<int>(culprits.size() + 1);
  std::int64_t longest_ns = 0;
  for (int step = 0; step < steps; ++step) {
    const std::int64_t begin_ns = weft::now_ns();
    const auto death = static_cast<std::size_t>(step / kSteps);
    if (!together && step % kSteps == kSteps - 1 && death < culprits.size() &&
        culprits[death] == context.rank())
      raise(SIGKILL);
    if (together && step == kSteps && std::ranges::count(culprits, context.rank()) != 0)
      raise(SIGKILL);
    for (std::size_t k = 0; k < in_flight; ++k) {
      std::vector<double>& each = x[k];
      const auto in = weft::in(each.data(), kCount);
      const auto out = weft::out(each.data(), kCount);
      if (in_flight == 1) {
        WEFT_RETURN_IF_ERROR(context.neighbor_allreduce(in, out));
        continue;
      }
      WEFT_ASSIGN(handles[k], context.neighbor_allreduce_start(in, out));
    }
    for (weft::Handle& handle : handles)
      if (!handle.is_empty()) WEFT_RETURN_IF_ERROR(handle.wait());
    if (step > 0) longest_ns = std::max(longest_ns, weft::now_ns() - begin_ns);  // 0: they connect
  }
  double least = 0, most = 0;
  WEFT_RETURN_IF_ERROR(
      context.allreduce(weft::in(x[0].data(), 1), weft::out(&least, 1), weft::ReduceOp::min));
  WEFT_RETURN_IF_ERROR(
      context.allreduce(weft::in(x[0].data(), 1), weft::out(&most, 1), weft::ReduceOp::max));
  if (most - least > 1e-6 || least < 0 || most > context.size() - 1)
    return Status(Code::system,
                  "no agreement: " + std::to_string(least) + " to " + std::to_string(most));
  for (const std::vector<double>& each : x)
    if (each.front() != each.back()) return Status(Code::system, "parts of the tensor differ");
  std::printf("left %zu of %d, longest step %.1f ms\n", context.members().size(), context.size(),
              static_cast<double>(longest_ns) / 1e6);
  return context.barrier();
}

// Each death is the error of the call that needs all ranks, in place; without that the same call goes on.
Status need_all(Context& context, const std::vector<Rank>& culprits) {
  constexpr std::size_t kCount = 3000;
  constexpr int kCalls = 20;
  const double mine = 1 << context.rank();
  double expected = (1 << context.size()) - 1;
  std::vector<double> x(kCount);
  const auto sum = [&](bool needs_all) {
    x.assign(kCount, mine);
    Status status = context.run({.collective = weft::Collective::allreduce,
                                 .input = weft::in(x.data(), kCount),
                                 .output = weft::out(x.data(), kCount),
                                 .op = weft::ReduceOp::sum,
                                 .needs_all = needs_all});
    const double wanted = status.ok() ? expected : mine;
    if (std::ranges::count(x, wanted) != std::ssize(x))
      return Status(Code::system, "wrong numbers after: " + status.to_string());
    return status;
  };
  for (const Rank culprit : culprits) {
    for (int call = 0; call < kCalls; ++call) {
      const Status status = sum(culprit == culprits.front());
      // A rank that is behind the others may hear of the death earlier.
      if (!status.ok() && status.code() != Code::peer_died) return status;
    }
    if (culprit == context.rank()) raise(SIGKILL);
    const Status status = sum(true);
    if (status.code() != Code::peer_died || status.rank() != culprits.front())
      return Status(Code::system, "not the death: " + status.to_string());
    expected -= 1 << culprit;
  }
  WEFT_RETURN_IF_ERROR(sum(false));
  std::printf("left %zu of %d\n", context.members().size(), context.size());
  return context.barrier();
}

// Averages with the neighbors until all have made all steps. Each of `culprits` dies once on the way.
Status come_back(Context& context, const std::vector<Rank>& culprits) {
  constexpr std::int64_t kStepsBetweenDeaths = 20;
  const auto last = static_cast<std::int64_t>(culprits.size() + 1) * kStepsBetweenDeaths;
  std::vector<double> x(3000, context.rank());
  std::int64_t step = 0;
  bool is_back = false;
  const auto let_in = [&]() -> Status {
    const std::vector<weft::Output> state = {weft::out(x.data(), x.size()), weft::out(&step, 1)};
    WEFT_ASSIGN(const std::vector<Rank> ranks, context.admit(state));
    is_back |= std::ranges::count(ranks, context.rank()) != 0;
    return {};
  };
  while (step < last) {
    WEFT_RETURN_IF_ERROR(let_in());
    if (step == last) break;  // the others are done, and have waited for this rank
    const auto death = static_cast<std::size_t>(step / kStepsBetweenDeaths);
    if (!is_back && step % kStepsBetweenDeaths == kStepsBetweenDeaths - 1 &&
        death < culprits.size() && culprits[death] == context.rank())
      raise(SIGKILL);
    WEFT_RETURN_IF_ERROR(
        context.neighbor_allreduce(weft::in(x.data(), x.size()), weft::out(x.data(), x.size())));
    ++step;
  }
  while (std::ssize(context.members()) < context.size()) WEFT_RETURN_IF_ERROR(let_in());
  std::vector<double> sum(x.size());
  WEFT_RETURN_IF_ERROR(context.allreduce(
      weft::in(x.data(), x.size()), weft::out(sum.data(), sum.size()), weft::ReduceOp::average));
  if (std::abs(sum.front() - x.front()) > 1e-3 || sum.front() != sum.back())
    return Status(Code::system, "no agreement: " + std::to_string(x.front()) + " of " +
                                    std::to_string(sum.front()));
  std::printf("%s, %zu of %d, step %lld\n", is_back ? "came back" : "stayed",
              context.members().size(), context.size(), static_cast<long long>(step));
  return context.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "";
  std::vector<Rank> culprits;
  for (int i = 2; i < argc; ++i) culprits.push_back(std::atoi(argv[i]));
  return weft::test::run_rank([&](Context& context) {
    if (way == "shrink") return shrink(context, culprits);
    if (way == "back") return come_back(context, culprits);
    if (way == "needing") return need_all(context, culprits);
    return skip(context, culprits, way == "started" ? 3 : 1, way == "together");
  });
}
