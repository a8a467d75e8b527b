// Private memory (not from weft::allocate) that travels through the staging area: the area is
// bounded, whatever the operation, its size, and how many are in flight at once.
#include "tests/context/job.h"

namespace weft {
namespace {

// Floats of one rank's whole tensor: eight times what the area may hold, over all channels.
constexpr std::size_t kCount = std::size_t{1} << 20;
constexpr int kInFlight = 8;
constexpr std::size_t kMostStaging = std::size_t{4} << 20;

using Start = Result<Handle> (*)(Context& context, Array<float>& x, Array<float>& y);

struct Operation {
  const char* name;
  Start start;
  bool is_block;  // the output is a rank's block of a tensor
};

Input whole(Array<float>& x) {
  return in(x.data(), x.size());
}
// A rank's block of a tensor.
std::size_t block(const Context& context) {
  return kCount / static_cast<std::size_t>(context.size());
}

const Operation kOperations[] = {
    {"neighbor_allreduce",
     [](Context& context, Array<float>& x, Array<float>& y) {
       return context.neighbor_allreduce_start(whole(x), out(y.data(), y.size()));
     },
     false},
    {"allreduce",
     [](Context& context, Array<float>& x, Array<float>& y) {
       return context.allreduce_start(whole(x), out(y.data(), y.size()));
     },
     false},
    {"broadcast",
     [](Context& context, Array<float>& x, Array<float>& y) {
       return context.broadcast_start(whole(x), out(y.data(), y.size()), 0);
     },
     false},
    {"allgather",
     [](Context& context, Array<float>& x, Array<float>& y) {
       return context.allgather_start(in(x.data(), block(context)), out(y.data(), y.size()));
     },
     false},
    {"reduce_scatter",
     [](Context& context, Array<float>& x, Array<float>& y) {
       return context.reduce_scatter_start(whole(x), out(y.data(), block(context)));
     },
     true},
    {"alltoall",
     [](Context& context, Array<float>& x, Array<float>& y) {
       return context.alltoall_start(whole(x), out(y.data(), y.size()));
     },
     false},
};

class Foreign : public testing::TestWithParam<Operation> {};

// Every rank has the same input, all ones, so every operation's output is all ones.
TEST_P(Foreign, StagingIsBoundedWithManyInFlight) {
  for (const int ranks : {2, 4}) {
    run_job(ranks, [&](Context& context) {
      ASSERT_TRUE(context.set_graph(*make_graph("fully_connected", context.size())).ok());
      Array<float> x(kCount, true);
      std::fill_n(x.data(), kCount, 1.0F);
      std::vector<std::unique_ptr<Array<float>>> results;
      std::vector<Handle> handles;
      for (int started = 0; started < kInFlight; ++started) {
        results.push_back(std::make_unique<Array<float>>(kCount, true));
        Result<Handle> handle = GetParam().start(context, x, *results.back());
        ASSERT_TRUE(handle.ok()) << handle.status().to_string();
        handles.push_back(std::move(*handle));
      }
      for (Handle& handle : handles) {
        const Status ended = handle.wait();
        ASSERT_TRUE(ended.ok()) << ended.to_string();
      }
      for (const auto& y : results)
        ASSERT_TRUE(holds(y->data(), GetParam().is_block ? block(context) : kCount, 1.0F, 1e-6));
      EXPECT_LE(context.usage().scratch_bytes, kMostStaging);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, Foreign, testing::ValuesIn(kOperations),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace weft
