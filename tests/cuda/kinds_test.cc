// Operations on GPU memory that gpu_test and ipc_test do not have: those of some ranks, with parts of
// different sizes, with weights of the call, by machines; small and large ones. Each gives what it gives
// on the host.
#include <array>
#include <functional>
#include <numeric>
#include <string>

#include "tests/context/cluster.h"
#include "tests/context/outcomes.h"
#include "tests/cuda/fake_library.h"

namespace weft {
namespace {

constexpr int kRanks = 4;

// A call: how many elements its ends have at a rank, and what it does with them. n: the size in question.
struct Kind {
  const char* name;
  std::function<std::size_t(Rank, std::size_t n)> in_count, out_count;
  std::function<Status(Context&, const Input&, const Output&, std::size_t n)> call;
};

std::size_t same(Rank, std::size_t n) {
  return n;
}
// Rank r's part is r + 1 times as large as the first one's.
std::size_t part_of(Rank rank, std::size_t n) {
  return (static_cast<std::size_t>(rank) + 1) * n / 4;
}
std::vector<std::size_t> parts(std::size_t n) {
  std::vector<std::size_t> all;
  for (Rank rank = 0; rank < kRanks; ++rank) all.push_back(part_of(rank, n));
  return all;
}
std::size_t all_parts(Rank, std::size_t n) {
  const std::vector<std::size_t> all = parts(n);
  return std::accumulate(all.begin(), all.end(), std::size_t{0});
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"pair_average", same, same,
       [](Context& context, const Input& x, const Output& y, std::size_t) {
         return context.pair_average(x, y, context.rank() ^ 1, 0.25, 0.75);
       }},
      {"group_average", same, same,
       [](Context& context, const Input& x, const Output& y, std::size_t) -> Status {
         const std::array<Rank, 3> group{0, 1, 3};
         return context.rank() == 2 ? Status() : context.group_average(x, y, group);
       }},
      {"send_and_recv", same, same,
       [](Context& context, const Input& x, const Output& y, std::size_t) {
         return context.rank() % 2 == 0 ? context.send(x, context.rank() + 1)
                                        : context.recv(y, context.rank() - 1);
       }},
      {"dynamic_weights", same, same,
       [](Context& context, const Input& x, const Output& y, std::size_t) {
         const NeighborWeight from{(context.rank() + 3) % kRanks, 0.75};
         const NeighborWeight to{(context.rank() + 1) % kRanks, 1.0};
         const NeighborWeights weights{
             .self = 0.25, .sources = std::span(&from, 1), .destinations = std::span(&to, 1)};
         return context.run({.collective = Collective::neighbor_allreduce,
                             .input = x,
                             .output = y,
                             .weights = &weights});
       }},
      {"local_allreduce", same, same,
       [](Context& context, const Input& x, const Output& y, std::size_t) {
         return context.local_allreduce(x, y, ReduceOp::max);
       }},
      {"allgather_of_parts", part_of, all_parts,
       [](Context& context, const Input& x, const Output& y, std::size_t n) {
         const std::vector<std::size_t> counts = parts(n);
         return context.run(
             {.collective = Collective::allgather, .input = x, .output = y, .counts = counts});
       }},
      {"alltoall_of_parts", all_parts,
       [](Rank rank, std::size_t n) { return kRanks * part_of(rank, n); },
       [](Context& context, const Input& x, const Output& y, std::size_t n) {
         const std::vector<std::size_t> to = parts(n);
         const std::vector<std::size_t> from(kRanks, part_of(context.rank(), n));
         return context.run({.collective = Collective::alltoall,
                             .input = x,
                             .output = y,
                             .counts = to,
                             .receive_counts = from});
       }},
  };
  return all;
}

// Runs the call on the host, and then on GPUs, or with one end on the host.
void expect_as_on_the_host(Context& context, const Kind& kind, std::size_t n) {
  const Rank rank = context.rank();
  const std::size_t in_count = kind.in_count(rank, n), out_count = kind.out_count(rank, n);
  std::vector<float> x(in_count), y(out_count, -1);
  for (std::size_t i = 0; i < in_count; ++i)
    x[i] = static_cast<float>((i * 5 + static_cast<std::size_t>(rank) * 7) % 32);
  const Status expected = kind.call(context, in(x.data(), in_count), out(y.data(), out_count), n);
  ASSERT_TRUE(expected.ok()) << expected.to_string();
  // The first calls let ranks try each other's GPUs.
  for (const auto& [input, output] :
       {std::pair{rank, rank}, {rank, rank}, {rank, rank}, {-1, rank}, {rank + 1, -1}}) {
    GpuArray<float> gpu_x(in_count, input), gpu_y(out_count, output);
    gpu_x.set(x);
    gpu_y.set(std::vector<float>(out_count, -1));
    const Status status =
        kind.call(context, in(gpu_x.data(), in_count), out(gpu_y.data(), out_count), n);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(gpu_y.get(), y) << "from " << input << " to " << output;
    EXPECT_EQ(gpu_x.get(), x);
  }
}

class GpuKinds : public testing::TestWithParam<std::size_t> {
 protected:
  GpuKinds() { FakeDriver::get().reset(); }
  ~GpuKinds() override { FakeDriver::get().reset(); }
};
INSTANTIATE_TEST_SUITE_P(Operations, GpuKinds, testing::Range(std::size_t{0}, kinds().size()),
                         [](const auto& info) { return std::string(kinds()[info.param].name); });

TEST_P(GpuKinds, GiveWhatTheyGiveOnTheHost) {
  run_job(kRanks, [](Context& context) {
    for (const std::size_t n : {std::size_t{1000}, std::size_t{300'000}})
      expect_as_on_the_host(context, kinds()[GetParam()], n);
  });
}

#ifdef HAS_UCX
TEST(GpuMachines, HierarchicalNeighborAllreduceGivesWhatItGivesOnTheHost) {
  FakeDriver::get().reset();
  const Kind kind{"hierarchical_neighbor_allreduce", same, same,
                  [](Context& context, const Input& x, const Output& y, std::size_t) {
                    return context.hierarchical_neighbor_allreduce(x, y);
                  }};
  run_cluster(kRanks, 2, [&](Context& context) {
    ASSERT_TRUE(context.set_machine_graph(*exponential_graph(2)).ok());
    for (const std::size_t n : {std::size_t{1000}, std::size_t{300'000}})
      expect_as_on_the_host(context, kind, n);
  });
}

TEST(GpuMachines, OperationsOfDifferentMachinesSayWhyBlocksAreUsed) {
  FakeDriver::get().reset();
  run_cluster(2, 2, [](Context& context) {
    const Kind sum{"allreduce", same, same,
                   [](Context& own, const Input& x, const Output& y, std::size_t) {
                     return own.allreduce(x, y, ReduceOp::sum);
                   }};
    expect_as_on_the_host(context, sum, 300'000);
    const std::string told = context.explain();
    if (told.find("sums are the host's") != std::string::npos) return;  // built without nvcc
    GpuArray<float> x(300'000, 0);
    ASSERT_TRUE(context.allreduce(in(x.data(), 300'000), out(x.data(), 300'000)).ok());
    EXPECT_NE(context.explain().find("this transport sends host memory alone"), std::string::npos)
        << context.explain();
  });
}
#endif

}  // namespace
}  // namespace weft
