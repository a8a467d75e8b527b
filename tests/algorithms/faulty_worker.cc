// One rank of a job that averages by partial all-reduce, from which a rank is killed in the middle of a group;
// started by `weft run` from processes_test.cc.
//   faulty_worker RANK LAW     the rank kills itself, while another thread of it averages
// The others go on and end. Each rank prints how its job ended.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <string>
#include <thread>

#include "engine/algorithms/algorithms.h"
#include "tests/context/faulty.h"

namespace {

using weft::Context;
using weft::PartialAllreduce;
using weft::Rank;
using weft::Result;
using weft::Status;

constexpr std::size_t kCount = 500'000;
constexpr int kBefore = 10;  // iterations of the rank that is killed
constexpr int kAfter = 40;   // of the others
constexpr int kMost = 20;    // of the rank that is killed, while it may be killed

Status wrong(const std::string& what) {
  return {weft::Code::mismatch, what};
}

// Ends the process some time after average() has begun.
void average_and_die(PartialAllreduce& partial) {
  std::atomic<bool> begins{false};
  std::thread killer([&] {
    while (!begins.load()) std::this_thread::yield();
    for (int turn = 0; turn < 10 * (getpid() % 10); ++turn) std::this_thread::yield();
    kill(getpid(), SIGKILL);
  });
  begins.store(true);
  for (int each = 0; each < kMost; ++each) (void)partial.average();
  killer.join();
}

Status run(Context& context, Rank victim, const std::string& law) {
  WEFT_ASSIGN(void* memory, weft::allocate(kCount * sizeof(double)));
  auto* x = static_cast<double*>(memory);
  std::fill_n(x, kCount, context.rank());
  WEFT_ASSIGN(PartialAllreduce partial,
              PartialAllreduce::create(context, weft::out(x, kCount), {.law = law}));
  const bool dies = context.rank() == victim;
  for (int each = 0; each < (dies ? kBefore : kBefore + kAfter); ++each)
    WEFT_RETURN_IF_ERROR(partial.average().status());
  if (dies) average_and_die(partial);
  // Perhaps the victim took part for longer than the others trained.
  while (partial.usage().successions == 0) WEFT_RETURN_IF_ERROR(partial.average().status());
  WEFT_RETURN_IF_ERROR(partial.end());
  for (std::size_t i = 0; i < kCount; ++i) {
    if (x[i] != x[0]) return wrong("a model is not of one group");
  }
  if (x[0] < 0 || x[0] > context.size() - 1) return wrong("a model is no mean");
  if (partial.usage().successions != 1)
    return wrong(std::to_string(partial.usage().successions) + " successions");
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return weft::test::run_rank(
      [&](weft::Context& context) { return run(context, std::atoi(argv[1]), argv[2]); });
}
