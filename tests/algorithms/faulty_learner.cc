// One rank of a job that averages by AD-PSGD, from which the last rank goes while it holds the
// mutexes of rank 0 and its own; started by `weft run` from processes_test.cc.
//   faulty_learner killed    rank 0 kills it in the middle of an average with rank 0
//   faulty_learner left      it closes its context
// The others then average with one another. Each rank prints how its job ended.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/algorithms/algorithms.h"
#include "tests/context/faulty.h"

namespace {

using weft::AdPsgd;
using weft::Context;
using weft::Rank;
using weft::Result;
using weft::Status;
using weft::Window;

constexpr std::size_t kCount = 100'000;
constexpr int kAverages = 20;
constexpr int kMostChanges = 300;  // that rank 0 sees before it kills
constexpr double kTolerance = 1e-3;

Status wrong(const std::string& what) {
  return {weft::Code::mismatch, what};
}

double load(double& x) {
  return std::atomic_ref(x).load(std::memory_order_relaxed);
}

// Some elements of a model.
using Sample = std::array<double, 3>;

Sample sample(const double* x) {
  return {x[0], x[kCount / 2], x[kCount - 1]};
}

// A meeting of all ranks but the last. A collective operation would fail with its death.
class Meeting {
 public:
  static Result<Meeting> create(Context& context, const std::string& name) {
    WEFT_ASSIGN(void* memory, weft::allocate(sizeof(Sample)));
    auto* x = static_cast<double*>(memory);
    WEFT_ASSIGN(Window window,
                context.win_create(weft::out(x, Sample().size()), name, {.zero_init = true}));
    Meeting made(std::move(window), x);
    for (Rank rank = 0; rank < context.size() - 1; ++rank) {
      if (rank != context.rank()) made.others_.push_back({rank, 1.0});
    }
    return made;
  }

  // The sum of everyone's sample. May be called once.
  Result<Sample> sum(const Sample& mine) {
    std::ranges::copy(mine, x_);
    WEFT_RETURN_IF_ERROR(tell(1));
    Sample sum{};
    WEFT_RETURN_IF_ERROR(window_.update(
        {.self_weight = 1.0, .sources = others_, .clone = weft::out(sum.data(), sum.size())}));
    return sum;
  }
  // Returns when all are here. Before sum().
  Status meet() { return tell(0); }

 private:
  Meeting(Window window, double* x) : window_(std::move(window)), x_(x) {}
  // A rank that has all signals may leave before the others know that their puts landed.
  Status tell(int signal) {
    const Status put = window_.put(window_.tensor(), {.destinations = others_, .signal = signal});
    if (!put.ok() && put.code() != weft::Code::peer_left) return put;
    return window_.wait_signal(signal, others_.size());
  }

  Window window_;
  double* x_;
  std::vector<weft::NeighborWeight> others_;
};

// A rank that goes right after a collective operation could end it for those that are still in it.
// So the last one goes when the others say that they are ready. It may be gone before they know
// that it heard.
Status await_ready(Context& context) {
  std::uint8_t ready = 0;
  for (Rank rank = 0; rank < context.size() - 1; ++rank)
    WEFT_RETURN_IF_ERROR(context.recv(weft::out(&ready, 1), rank));
  return {};
}
void say_ready(Context& context) {
  const std::uint8_t ready = 1;
  (void)context.send(weft::in(&ready, 1), context.size() - 1);
}

// The last rank: averages with rank 0 until it is killed, or goes with both mutexes.
Status go(Context& context, AdPsgd& ad_psgd, const std::string& how, double* x) {
  if (how == "left") {
    WEFT_ASSIGN(Window window, context.window("ad_psgd"));
    const Rank both[] = {0, context.rank()};
    WEFT_RETURN_IF_ERROR(window.lock(both));
    WEFT_RETURN_IF_ERROR(context.barrier());
    return await_ready(context);
  }
  WEFT_RETURN_IF_ERROR(context.barrier());
  WEFT_RETURN_IF_ERROR(await_ready(context));
  for (int round = 0;; ++round) {
    WEFT_RETURN_IF_ERROR(ad_psgd.update([&] { std::fill_n(x, kCount, round % 2); }));
    WEFT_RETURN_IF_ERROR(ad_psgd.average_with(0));
  }
}

// Rank 0: sees a model of which one part is averaged and the other is not. Where the two ranks take
// turns on one core, that is rare, and it kills after some averages: most of the time one is going
// on.
void kill_in_the_middle(int process, double* x) {
  double last = load(x[0]);
  for (int changes = 0; changes < kMostChanges && load(x[0]) == load(x[kCount - 1]);) {
    if (std::exchange(last, load(x[0])) != load(x[0])) ++changes;
    std::this_thread::yield();
  }
  kill(process, SIGKILL);
}

// Rank 0 hears from this average that the last rank is gone.
Status see_it_gone(AdPsgd& ad_psgd, Rank last) {
  Status status;
  while (status.ok()) status = ad_psgd.average_with(last);
  return status;
}

// The last rank is an error of an average once at most; no other rank is one.
Status average_on(AdPsgd& ad_psgd, Rank last, Status& seen) {
  for (int each = 0; each < kAverages; ++each) {
    const Status status = ad_psgd.average().status();
    if (status.ok()) continue;
    if (status.rank() != last) return status;
    if (!seen.ok()) return wrong("was told twice: " + status.to_string());
    seen = status;
  }
  return {};
}

Status check(const Sample& before, const Sample& after, double* x) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (std::abs(after[i] - before[i]) <= 1e-9) continue;
    return wrong("the survivors held " + std::to_string(before[i]) + ", and now hold " +
                 std::to_string(after[i]));
  }
  // They had 0 to 2, and the last rank wrote values from 0 to 2 into that of rank 0.
  const auto [lowest, highest] = std::minmax_element(x, x + kCount);
  if (*lowest < 0 || *highest > 2) return wrong("an element is of no average");
  const Sample own = sample(x);
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (std::abs(own[i] - after[i] / 3) > kTolerance)
      return wrong("a survivor has not come to the mean");
  }
  return {};
}

Status run(Context& context, const std::string& how) {
  const Rank last = context.size() - 1;
  WEFT_RETURN_IF_ERROR(context.set_graph(*weft::fully_connected_graph(context.size())));
  std::vector<std::int32_t> processes(static_cast<std::size_t>(context.size()));
  const std::int32_t own = getpid();
  WEFT_RETURN_IF_ERROR(
      context.allgather(weft::in(&own, 1), weft::out(processes.data(), processes.size())));
  WEFT_ASSIGN(void* memory, weft::allocate(kCount * sizeof(double)));
  auto* x = static_cast<double*>(memory);
  std::fill_n(x, kCount, context.rank() % 3);
  WEFT_ASSIGN(AdPsgd ad_psgd, AdPsgd::create(context, weft::out(x, kCount)));
  WEFT_ASSIGN(Meeting begin, Meeting::create(context, "begin"));
  WEFT_ASSIGN(Meeting end, Meeting::create(context, "end"));
  if (context.rank() == last) return go(context, ad_psgd, how, x);

  WEFT_RETURN_IF_ERROR(context.barrier());
  say_ready(context);
  Status seen;
  if (context.rank() == 0) {
    if (how == "killed") kill_in_the_middle(processes.back(), x);
    seen = see_it_gone(ad_psgd, last);
  }
  WEFT_ASSIGN(const Sample before, begin.sum(sample(x)));
  // Rank 0 averages with the one that is gone no more, as it was told by average_with().
  Status told;
  WEFT_RETURN_IF_ERROR(average_on(ad_psgd, last, told));
  WEFT_RETURN_IF_ERROR(end.meet());
  WEFT_ASSIGN(const Sample after, end.sum(sample(x)));
  WEFT_RETURN_IF_ERROR(check(before, after, x));
  return told.ok() ? seen : told;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::test::run_rank(
      [&](weft::Context& context) { return run(context, argc > 1 ? argv[1] : ""); });
}
