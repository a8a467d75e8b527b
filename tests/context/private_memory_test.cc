// Private memory (not from weft::allocate). Where it travels through the staging area, the area is
// bounded, whatever the operation, its size, and how many are in flight at once. Ranks that are
// threads of one process need no copy: they read it in place.
#include "tests/context/job.h"

namespace weft {
namespace {

// Floats of one rank's whole tensor: eight times what the area may hold, over all channels.
constexpr std::size_t kCount = std::size_t{1} << 20;
constexpr int kInFlight = 8;
constexpr std::size_t kMostStaging = std::size_t{4} << 20;

using Start = Result<Handle> (*)(Context& context, Array<float>& x, Array<float>& y);

struct OperationCase {
  const char* name;
  Start start;
  std::size_t (*result)(const Context& context);  // elements of the output
  bool keeps_partial_results = false;             // beside staging, at most a tensor for each call
};

Input whole(Array<float>& x) {
  return in(x.data(), x.size());
}
// A rank's block of a tensor.
std::size_t block(const Context& context) {
  return kCount / static_cast<std::size_t>(context.size());
}
std::size_t everything(const Context&) {
  return kCount;
}
std::size_t everything_at_root(const Context& context) {
  return context.rank() == 0 ? kCount : 0;
}
// On the fully connected graph.
std::size_t blocks_of_neighbors(const Context& context) {
  return kCount - block(context);
}
Output at_root(const Context& context, Array<float>& y) {
  return context.rank() == 0 ? out(y.data(), y.size()) : Output{};
}

const OperationCase kOperations[] = {
    {"neighbor_allreduce",
     [](Context& context, Array<float>& x, Array<float>& y) {
       return context.neighbor_allreduce_start(whole(x), out(y.data(), y.size()));
     },
     everything},
    {"neighbor_allgather",
     [](Context& context, Array<float>& x, Array<float>& y) {
       return context.neighbor_allgather_start(in(x.data(), block(context)),
                                               out(y.data(), blocks_of_neighbors(context)));
     },
     blocks_of_neighbors},
    {"allreduce",
     [](Context& context, Array<float>& x, Array<float>& y) {
       return context.allreduce_start(whole(x), out(y.data(), y.size()));
     },
     everything},
    {"broadcast",
     [](Context& context, Array<float>& x, Array<float>& y) {
       return context.broadcast_start(whole(x), out(y.data(), y.size()), 0);
     },
     everything},
    {"reduce",
     [](Context& context, Array<float>& x, Array<float>& y) {
       return context.reduce_start(whole(x), at_root(context, y), 0);
     },
     everything_at_root, true},
    {"allgather",
     [](Context& context, Array<float>& x, Array<float>& y) {
       return context.allgather_start(in(x.data(), block(context)), out(y.data(), y.size()));
     },
     everything},
    {"reduce_scatter",
     [](Context& context, Array<float>& x, Array<float>& y) {
       return context.reduce_scatter_start(whole(x), out(y.data(), block(context)));
     },
     block},
    {"gather",
     [](Context& context, Array<float>& x, Array<float>& y) {
       return context.gather_start(in(x.data(), block(context)), at_root(context, y), 0);
     },
     everything_at_root},
    {"scatter",
     [](Context& context, Array<float>& x, Array<float>& y) {
       return context.scatter_start(context.rank() == 0 ? whole(x) : Input{},
                                    out(y.data(), block(context)), 0);
     },
     block},
    {"alltoall",
     [](Context& context, Array<float>& x, Array<float>& y) {
       return context.alltoall_start(whole(x), out(y.data(), y.size()));
     },
     everything},
};

class Foreign : public testing::TestWithParam<OperationCase> {};

// Every rank has the same input, all ones, so every operation's output is all ones.
void run_in_flight(Context& context, const OperationCase& operation) {
  ASSERT_TRUE(context.set_graph(*make_graph("fully_connected", context.size())).ok());
  Array<float> x(kCount, true);
  std::fill_n(x.data(), kCount, 1.0F);
  std::vector<std::unique_ptr<Array<float>>> results;
  std::vector<Handle> handles;
  for (int started = 0; started < kInFlight; ++started) {
    results.push_back(std::make_unique<Array<float>>(kCount, true));
    Result<Handle> handle = operation.start(context, x, *results.back());
    ASSERT_TRUE(handle.ok()) << handle.status().to_string();
    handles.push_back(std::move(*handle));
  }
  for (Handle& handle : handles) {
    const Status ended = handle.wait();
    ASSERT_TRUE(ended.ok()) << ended.to_string();
  }
  for (const auto& y : results)
    ASSERT_TRUE(holds(y->data(), operation.result(context), 1.0F, 1e-6));
}

TEST_P(Foreign, StagingIsBoundedWithManyInFlight) {
  Config config = test_config();
  config.private_memory = PrivatePath::staging;
  for (const int ranks : {2, 4}) {
    run_job(
        ranks,
        [&](Context& context) {
          run_in_flight(context, GetParam());
          const std::size_t partial =
              GetParam().keeps_partial_results ? kInFlight * kCount * sizeof(float) : 0;
          EXPECT_LE(context.usage().scratch_bytes, kMostStaging + partial);
        },
        config);
  }
}

TEST_P(Foreign, RanksOfOneProcessReadItInPlace) {
  for (const int ranks : {2, 4}) {
    run_job(ranks, [&](Context& context) {
      run_in_flight(context, GetParam());  // some ranks are yet to connect, and get copies
      run_in_flight(context, GetParam());
      EXPECT_EQ(context.explain().find("staged"), std::string::npos) << context.explain();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, Foreign, testing::ValuesIn(kOperations),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace weft
