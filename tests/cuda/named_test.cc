// Large operations by name on GPU memory, on the fake of the driver: they give what they give on the
// host, wherever the ends of the ranks are, and go where they have to: from the memory itself to ranks
// that read it, through blocks to others. Small ones, which are fused, are in gpu_test.cc.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "engine/gpu/gpu.h"
#include "tests/context/cluster.h"
#include "tests/cuda/on_gpus.h"

namespace weft {
namespace {

constexpr int kRanks = 4;
constexpr std::size_t kCount = 270'000;  // just above what is fused

class GpuNamed : public testing::Test {
 protected:
  void SetUp() override { fake.reset(); }
  void TearDown() override { fake.reset(); }

  const FakeDriver& fake = FakeDriver::get();
};
class GpuNamedKernels : public OnGpus {};

void expect_same_by_name(Context& context, Named& named, const Request& request,
                         std::size_t in_count, std::size_t out_count, GpuArray<float>& x,
                         GpuArray<float>& y, int times) {
  expect_as_on_host(request, terms_of(context.rank(), in_count), out_count, x, y, times,
                    [&](const char* name, const Request& here) { return named.run(name, here); });
}

struct Case {
  const char* name;
  Collective collective;
  std::size_t in, out;  // elements
  Rank root = kNoRank;
};
class LargeByName : public GpuNamed, public testing::WithParamInterface<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Operations, LargeByName,
    testing::Values(Case{"allreduce", Collective::allreduce, kCount, kCount},
                    Case{"broadcast", Collective::broadcast, kCount, kCount, 2},
                    Case{"allgather", Collective::allgather, kCount, kRanks* kCount},
                    Case{"alltoall", Collective::alltoall, kRanks* kCount, kRanks* kCount},
                    Case{"neighbor_allreduce", Collective::neighbor_allreduce, kCount, kCount},
                    Case{"neighbor_allgather", Collective::neighbor_allgather, kCount, 2 * kCount},
                    Case{"pair_average", Collective::pair_average, kCount, kCount},
                    Case{"group_average", Collective::group_average, kCount, kCount}),
    [](const auto& info) { return std::string(info.param.name); });

Request request_of(const Case& what, Rank rank) {
  static constexpr std::array<Rank, kRanks> kAll{0, 1, 2, 3};
  Request request{.collective = what.collective, .op = ReduceOp::sum, .root = what.root};
  if (what.collective == Collective::pair_average) request.peer = rank ^ 1;
  if (what.collective == Collective::group_average) request.group = kAll;
  return request;
}

// The first calls let ranks try each other's GPUs.
TEST_P(LargeByName, GiveWhatTheyGiveOnTheHost) {
  run_job(kRanks, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok()) << named.status().to_string();
    const Rank rank = context.rank();
    const Request request = request_of(GetParam(), rank);
    const auto expect = [&](int input, int output, int times) {
      SCOPED_TRACE(testing::Message() << "from " << input << " to " << output);
      GpuArray<float> x(GetParam().in, input), y(GetParam().out, output);
      expect_same_by_name(context, *named, request, GetParam().in, GetParam().out, x, y, times);
    };
    expect(0, 0, 3);
    expect(rank % 2, rank % 2, 1);
    expect(rank % 2, (rank + 1) % 2, 1);
    expect(rank % 3 - 1, (rank + 1) % 3 - 1, 2);  // some on the host
    ASSERT_TRUE(named->end().ok());
  });
}

TEST_P(LargeByName, GiveItWithMemoryOfAPool) {
  if (!fake.is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  run_job(kRanks, [&](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok()) << named.status().to_string();
    if (context.rank() == 0) fake.give_pool_memory(1);
    ASSERT_TRUE(context.barrier().ok());
    GpuArray<float> x(GetParam().in, 0), y(GetParam().out, 0);
    ASSERT_TRUE(context.barrier().ok());
    if (context.rank() == 0) fake.give_pool_memory(0);
    ASSERT_TRUE(context.barrier().ok());
    expect_same_by_name(context, *named, request_of(GetParam(), context.rank()), GetParam().in,
                        GetParam().out, x, y, 4);
    ASSERT_TRUE(named->end().ok());
  });
}

// Nothing goes to the host, and each sum is one launch.
TEST_F(GpuNamedKernels, AnAllreduceOfNeighborsIsOneLaunchAndNoCopy) {
  run_job(2, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok()) << named.status().to_string();
    GpuArray<float> x(kCount, 0), y(kCount, 0);
    x.set(terms_of(context.rank(), kCount));
    const auto run = [&] {
      const Status status =
          named->neighbor_allreduce("x", in(x.data(), kCount), out(y.data(), kCount));
      ASSERT_TRUE(status.ok()) << status.to_string();
    };
    for (int i = 0; i < 3; ++i) run();
    ASSERT_TRUE(context.barrier().ok());
    const GpuUsage before = gpu_usage();
    ASSERT_TRUE(context.barrier().ok());
    run();
    ASSERT_TRUE(context.barrier().ok());
    const GpuUsage after = gpu_usage();
    EXPECT_EQ(after.with_aliases - before.with_aliases, 2U);
    EXPECT_EQ(after.copies_out - before.copies_out, 0U);
    EXPECT_EQ(after.copies_in - before.copies_in, 0U);
    EXPECT_EQ(after.launches - before.launches, 2U);
    ASSERT_TRUE(context.barrier().ok());
    ASSERT_TRUE(named->end().ok());
  });
}

// Small tensors of a group are copied by one launch to their blocks, and by one back.
TEST_F(GpuNamedKernels, AGroupOfSmallTensorsIsTwoLaunches) {
  run_job(2, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok()) << named.status().to_string();
    constexpr std::size_t kMany = 100;
    std::vector<std::unique_ptr<GpuArray<float>>> x;
    std::vector<Request> group;
    for (std::size_t t = 0; t < kMany; ++t) {
      x.push_back(std::make_unique<GpuArray<float>>(t + 1, 0));
      x[t]->set(std::vector<float>(t + 1, static_cast<float>(t)));
      group.push_back({.collective = Collective::allreduce,
                       .input = in(x[t]->data(), t + 1),
                       .output = out(x[t]->data(), t + 1),
                       .op = ReduceOp::sum});
    }
    ASSERT_TRUE(context.barrier().ok());
    const GpuUsage before = gpu_usage();
    ASSERT_TRUE(context.barrier().ok());
    Result<Handle> handle = named->start_group("group", group);
    ASSERT_TRUE(handle.ok()) << handle.status().to_string();
    const Status status = handle->wait();
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_TRUE(context.barrier().ok());
    const GpuUsage after = gpu_usage();
    EXPECT_EQ(after.copies_out - before.copies_out, 0U);
    EXPECT_EQ(after.copies_in - before.copies_in, 0U);
    EXPECT_EQ(after.launches - before.launches, 4U);
    for (std::size_t t = 0; t < kMany; ++t)
      EXPECT_EQ(x[t]->get(), std::vector<float>(t + 1, static_cast<float>(2 * t))) << t;
    ASSERT_TRUE(context.barrier().ok());
    ASSERT_TRUE(named->end().ok());
  });
}

// Ranks submit in different orders, in place, groups of large and small tensors, and neighbor operations
// among them.
TEST_F(GpuNamed, LargeAndSmallTensorsRunTogether) {
  run_job(3, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok()) << named.status().to_string();
    constexpr std::size_t kMany = 6;
    std::vector<std::unique_ptr<GpuArray<float>>> x;
    std::vector<std::size_t> counts;
    for (std::size_t t = 0; t < kMany; ++t) {
      counts.push_back(t % 2 == 0 ? kCount : 100);
      x.push_back(std::make_unique<GpuArray<float>>(counts[t], context.rank()));
    }
    const auto fill = [&](std::size_t t, float value) {
      x[t]->set(std::vector<float>(counts[t], value));
    };
    const auto request = [&](std::size_t t) {
      return Request{
          .collective = t % 3 == 0 ? Collective::neighbor_allreduce : Collective::allreduce,
          .input = in(x[t]->data(), counts[t]),
          .output = out(x[t]->data(), counts[t]),
          .op = ReduceOp::sum};
    };
    for (int round = 0; round < 4; ++round) {
      for (std::size_t t = 0; t < kMany; ++t) fill(t, static_cast<float>(t + 1));
      std::vector<Handle> handles;
      for (std::size_t k = 0; k < kMany; ++k) {
        const std::size_t t = (k + static_cast<std::size_t>(context.rank()) * 2) % kMany;
        Result<Handle> handle = named->start("tensor" + std::to_string(t), request(t));
        ASSERT_TRUE(handle.ok()) << handle.status().to_string();
        handles.push_back(*handle);
      }
      for (Handle& handle : handles) {
        const Status status = handle.wait();
        ASSERT_TRUE(status.ok()) << status.to_string();
      }
      for (std::size_t t = 0; t < kMany; ++t) {
        const auto own = static_cast<float>(t + 1);
        EXPECT_EQ(x[t]->get(), std::vector<float>(counts[t], t % 3 == 0 ? own : 3 * own)) << t;
      }
      std::vector<Request> group;
      for (const std::size_t t : {1, 2, 4, 5}) {
        fill(t, static_cast<float>(t));
        group.push_back(request(t));
      }
      Result<Handle> handle = named->start_group("group", group);
      ASSERT_TRUE(handle.ok()) << handle.status().to_string();
      ASSERT_TRUE(handle->wait().ok());
      for (const std::size_t t : {1, 2, 4, 5})
        EXPECT_EQ(x[t]->get(), std::vector<float>(counts[t], static_cast<float>(3 * t))) << t;
    }
    ASSERT_TRUE(named->end().ok());
  });
}

// What the caller's stream has comes first, and what it has later is not waited for.
TEST_F(GpuNamed, LargeOnesBeginBehindTheirStream) {
  if (!fake.is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  run_job(2, [&](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok()) << named.status().to_string();
    GpuArray<float> x(kCount, 0), y(kCount, 0);
    const std::vector<float> late(kCount, 2);
    x.set(std::vector<float>(kCount, 1));
    void* const stream = fake.stream(0);
    for (const Collective collective : {Collective::allreduce, Collective::neighbor_allreduce}) {
      Request request{
          .collective = collective, .input = in(x.data(), kCount), .output = out(y.data(), kCount)};
      request.stream = Stream{stream};
      fake.hold(stream);
      fake.copy_in(0, x.data(), late.data(), kCount * sizeof(float), stream);
      Result<Handle> handle = named->start("x", request);
      ASSERT_TRUE(handle.ok()) << handle.status().to_string();
      fake.release(stream);
      fake.hold(stream);  // for good, as far as the operation knows
      const Status status = handle->wait();
      EXPECT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(y.get(), late);
      fake.release(stream);
      fake.run();
    }
    ASSERT_TRUE(named->end().ok());
  });
}

TEST_F(GpuNamedKernels, AGpuThatIsLostEndsTheOperation) {
  if (!fake.is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  run_job(2, [&](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok()) << named.status().to_string();
    GpuArray<float> x(kCount, 0), y(kCount, 0);
    x.set(terms_of(context.rank(), kCount));
    const Input input = in(x.data(), kCount);
    const Output output = out(y.data(), kCount);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(named->neighbor_allreduce("x", input, output).ok());
    ASSERT_TRUE(context.barrier().ok());
    if (context.rank() == 0) fake.lose_device();
    ASSERT_TRUE(context.barrier().ok());
    const Status status = named->neighbor_allreduce("x", input, output);
    EXPECT_EQ(status.code(), Code::system) << status.to_string();
    ASSERT_TRUE(context.barrier().ok());
    if (context.rank() == 0) fake.reset();
    ASSERT_TRUE(context.barrier().ok());
  });
}

#ifdef HAS_UCX
// To another machine they go through blocks.
TEST_F(GpuNamed, LargeOnesReachOtherMachines) {
  run_cluster(kRanks, 2, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok()) << named.status().to_string();
    for (const Collective collective : {Collective::neighbor_allreduce, Collective::allreduce}) {
      const Request request{.collective = collective, .op = ReduceOp::sum};
      GpuArray<float> x(kCount, context.rank()), y(kCount, context.rank());
      expect_same_by_name(context, *named, request, kCount, kCount, x, y, 4);
    }
    ASSERT_TRUE(named->end().ok());
  });
}
#endif

}  // namespace
}  // namespace weft
