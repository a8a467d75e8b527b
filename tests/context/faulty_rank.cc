// One rank of a job in which something goes wrong; started by `weft run` from death_test.cc.
//   faulty_rank killed R     rank R kills itself in the middle of the job
//   faulty_rank leaves R     rank R ends its part early, in good order
//   faulty_rank fine         nobody does anything wrong
// Each rank prints how its job ended and exits with 0: the test reads the lines.
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "engine/context/context.h"

namespace {

constexpr int kOperations = 200;
constexpr std::size_t kCount = 5000;  // large enough to be read in place

weft::Status run(weft::Context& context, const std::string& fault, weft::Rank culprit) {
  WEFT_RETURN_IF_ERROR(context.set_graph(*weft::ring_graph(context.size(), weft::RingStyle::both)));
  WEFT_ASSIGN(void* memory, weft::allocate(2 * kCount * sizeof(float)));
  auto* x = static_cast<float*>(memory);
  for (int k = 0; k < kOperations; ++k) {
    if (context.rank() == culprit && k == kOperations / 2) {
      if (fault == "killed") raise(SIGKILL);
      if (fault == "leaves") return {};
    }
    WEFT_RETURN_IF_ERROR(
        context.neighbor_allreduce(weft::in(x, kCount), weft::out(x + kCount, kCount)));
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string fault = argc > 1 ? argv[1] : "fine";
  const weft::Rank culprit = argc > 2 ? std::atoi(argv[2]) : weft::kNoRank;
  auto context = weft::Context::from_environment();
  if (!context.ok()) {
    std::printf("no context: %s\n", context.status().to_string().c_str());
    return 1;
  }
  const weft::Status status = run(**context, fault, culprit);
  std::printf("ended %s\n", status.to_string().c_str());
  std::fflush(stdout);
  return 0;
}
