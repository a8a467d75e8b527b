// One rank of a job in which something goes wrong; started by `weft run` from death_test.cc.
//   faulty_rank killed R     rank R kills itself in the middle of the job
//   faulty_rank leaves R     rank R ends its part early, in good order
//   faulty_rank fine         nobody does anything wrong
//   faulty_rank private R    nor here: allgathers, broadcasts from R and gathers to R, of memory that is not from
//                            weft::allocate; each rank prints how explain() says that it travelled
// A third argument is the number of elements of an operation; there are fewer operations then. With a
// fourth one, `gpu`, the tensors are on GPUs, which take turns among the ranks.
// Each rank prints how its job ended and exits with 0: the test reads the lines.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "engine/context/context.h"
#include "tests/context/faulty.h"

namespace {

struct Work {
  int operations = 200;
  std::size_t count = 5000;  // large enough to be read in place
  bool is_on_gpu = false;
};

weft::Status run(weft::Context& context, const std::string& fault, weft::Rank culprit,
                 const Work& work) {
  WEFT_RETURN_IF_ERROR(context.set_graph(*weft::ring_graph(context.size(), weft::RingStyle::both)));
  const std::size_t bytes = 2 * work.count * sizeof(float);
  constexpr int kGpus = 2;
  WEFT_ASSIGN(void* memory, work.is_on_gpu
                                ? weft::allocate(bytes, weft::Device{context.rank() % kGpus})
                                : weft::allocate(bytes));
  auto* x = static_cast<float*>(memory);
  for (int k = 0; k < work.operations; ++k) {
    if (context.rank() == culprit && k == work.operations / 2) {
      if (fault == "killed") raise(SIGKILL);
      if (fault == "leaves") return {};
    }
    WEFT_RETURN_IF_ERROR(
        context.neighbor_allreduce(weft::in(x, work.count), weft::out(x + work.count, work.count)));
  }
  return {};
}

weft::Status run_private(weft::Context& context, weft::Rank root) {
  constexpr int kOperations = 40;
  constexpr std::size_t kCount = 64 << 10;
  const auto ranks = static_cast<std::size_t>(context.size());
  std::vector<float> x(kCount), y(kCount * ranks);
  const auto is_from = [&](std::size_t place, weft::Rank rank, int k) {
    const auto part = y.begin() + static_cast<std::ptrdiff_t>(place * kCount);
    return std::all_of(part, part + kCount,
                       [&](float got) { return got == static_cast<float>(100 * rank + k); });
  };
  const weft::Status wrong(weft::Code::system, "wrong data");
  for (int k = 0; k < kOperations; ++k) {
    std::ranges::fill(x, static_cast<float>(100 * context.rank() + k));
    WEFT_RETURN_IF_ERROR(
        context.allgather(weft::in(x.data(), kCount), weft::out(y.data(), y.size())));
    for (std::size_t rank = 0; rank < ranks; ++rank)
      if (!is_from(rank, static_cast<weft::Rank>(rank), k)) return wrong;
    WEFT_RETURN_IF_ERROR(
        context.broadcast(weft::in(x.data(), kCount), weft::out(y.data(), kCount), root));
    if (!is_from(0, root, k)) return wrong;
    WEFT_RETURN_IF_ERROR(context.gather(
        weft::in(x.data(), kCount),
        context.rank() == root ? weft::out(y.data(), y.size()) : weft::Output{}, root));
    for (std::size_t rank = 0; rank < ranks && context.rank() == root; ++rank)
      if (!is_from(rank, static_cast<weft::Rank>(rank), k)) return wrong;
  }
  std::istringstream explained(context.explain());
  for (std::string line; std::getline(explained, line);)
    if (line.find("private memory, ") != std::string::npos) std::printf("%s\n", line.c_str());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string fault = argc > 1 ? argv[1] : "fine";
  const weft::Rank culprit = argc > 2 ? std::atoi(argv[2]) : weft::kNoRank;
  Work work;
  if (argc > 3) work = {20, std::strtoul(argv[3], nullptr, 10), argc > 4};
  return weft::test::run_rank([&](weft::Context& context) {
    return fault == "private" ? run_private(context, culprit) : run(context, fault, culprit, work);
  });
}
