// Ranks of one machine that read each other's GPU memory where it is, on the fake of the driver:
// the bits of the host, what is launched and copied, and what happens where it cannot be. Ranks are
// threads; tools_test.cc has processes.
#include <algorithm>
#include <memory>

#include "engine/gpu/gpu.h"
#include "tests/cuda/on_gpus.h"

namespace weft {
namespace {

constexpr std::size_t kCount = 270'000;  // just above what goes through blocks
constexpr std::size_t kBytes = kCount * sizeof(float);

class GpuIpc : public OnGpus {};

// The first operation offers the GPUs, the second one tries them.
void meet(Context& context) {
  GpuArray<float> x(kCount, context.rank()), y(kCount, context.rank());
  x.set(terms_of(context.rank(), kCount));
  for (int i = 0; i < 3; ++i) {
    const Status status = context.allreduce(in(x.data(), kCount), out(y.data(), kCount));
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
}

struct Change {
  GpuUsage before = gpu_usage();
  [[nodiscard]] GpuUsage since() const {
    const GpuUsage now = gpu_usage();
    return {now.copies_out - before.copies_out,     now.copies_in - before.copies_in,
            now.bytes_out - before.bytes_out,       now.bytes_in - before.bytes_in,
            now.bytes_inside - before.bytes_inside, now.launches - before.launches,
            now.pinned_bytes - before.pinned_bytes, now.with_aliases - before.with_aliases};
  }
};

struct Case {
  const char* name;
  Collective collective;
  std::size_t in, out;  // elements, for 4 ranks
  Rank root = kNoRank;
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic;
};
class EveryOperationByIpc : public GpuIpc, public testing::WithParamInterface<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Operations, EveryOperationByIpc,
    testing::Values(
        Case{"neighbor_allreduce", Collective::neighbor_allreduce, kCount, kCount},
        Case{"neighbor_allgather", Collective::neighbor_allgather, kCount, 2 * kCount},
        Case{"direct", Collective::allreduce, kCount, kCount, kNoRank, AllreduceAlgorithm::direct},
        Case{"split", Collective::allreduce, kCount, kCount, kNoRank, AllreduceAlgorithm::split},
        Case{"ring", Collective::allreduce, kCount, kCount, kNoRank, AllreduceAlgorithm::ring},
        Case{"broadcast", Collective::broadcast, kCount, kCount, 2},
        Case{"allgather", Collective::allgather, kCount, 4 * kCount},
        Case{"reduce_scatter", Collective::reduce_scatter, 4 * kCount, kCount},
        Case{"reduce", Collective::reduce, kCount, kCount, 1},
        Case{"gather", Collective::gather, kCount, 4 * kCount, 3},
        Case{"scatter", Collective::scatter, 4 * kCount, kCount, 0},
        Case{"small_parts", Collective::scatter, 280'000, 70'000, 0},
        Case{"odd_parts", Collective::alltoall, 270'004, 270'004},
        Case{"alltoall", Collective::alltoall, 4 * kCount, 4 * kCount}),
    [](const auto& info) { return std::string(info.param.name); });

// A sum at once, one in steps, copies of blocks, and a scratch.
class SomeOperationsByIpc : public GpuIpc, public testing::WithParamInterface<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Operations, SomeOperationsByIpc,
    testing::Values(Case{"neighbor_allreduce", Collective::neighbor_allreduce, kCount, kCount},
                    Case{"split", Collective::allreduce, kCount, kCount, kNoRank,
                         AllreduceAlgorithm::split},
                    Case{"allgather", Collective::allgather, kCount, 4 * kCount},
                    Case{"reduce", Collective::reduce, kCount, kCount, 1}),
    [](const auto& info) { return std::string(info.param.name); });

// Where the ends of the ranks are: all on GPUs, and some on the host.
struct Places {
  const char* name;
  int (*input)(Rank);
  int (*output)(Rank);
};
const Places kPlaces[] = {
    {"one GPU", [](Rank) { return 0; }, [](Rank) { return 0; }},
    {"two GPUs", [](Rank rank) { return rank % 2; }, [](Rank rank) { return rank % 2; }},
    {"input and output apart", [](Rank rank) { return rank % 2; },
     [](Rank rank) { return (rank + 1) % 2; }},
    {"some on the host", [](Rank rank) { return rank % 3 - 1; },
     [](Rank rank) { return (rank + 1) % 3 - 1; }},
};

void expect_as_on_host(Context& context, const Case& what, const Places& places) {
  SCOPED_TRACE(places.name);
  const Rank rank = context.rank();
  Request request{.collective = what.collective, .op = ReduceOp::sum, .root = what.root};
  request.algorithm = what.algorithm;
  expect_same(context, request, what.in, what.out, places.input(rank), places.output(rank), 2);
}

TEST_P(EveryOperationByIpc, GivesWhatItGivesOnTheHost) {
  const Change change;
  run_job(4, [](Context& context) {
    meet(context);
    for (const Places& places : kPlaces) expect_as_on_host(context, GetParam(), places);
  });
  // All ranks of the last round of meet(), and those of the first three places.
  EXPECT_GE(change.since().with_aliases, 4U + 24U);
}

// GPUs that do not read each other's memory: what one needs of another goes through the host.
TEST_P(SomeOperationsByIpc, WorkWithoutPeerAccess) {
  if (!fake.is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  run_job(4, [&](Context& context) {
    meet(context);
    if (context.rank() == 0) fake.fail("cuDeviceCanAccessPeer", 999, 1'000'000);
    ASSERT_TRUE(context.barrier().ok());
    expect_as_on_host(context, GetParam(), kPlaces[1]);
    expect_as_on_host(context, GetParam(), kPlaces[3]);
  });
}

TEST_P(SomeOperationsByIpc, RunOnSeveralLanes) {
  Config config = test_config();
  config.lanes = 2;
  run_job(
      4,
      [&](Context& context) {
        meet(context);
        expect_as_on_host(context, GetParam(), kPlaces[0]);
      },
      config);
}

// Nothing goes to the host, and the result is written where it belongs.
TEST_F(GpuIpc, ADirectSumIsOneLaunchAndNoCopy) {
  run_job(2, [](Context& context) {
    meet(context);
    GpuArray<float> x(kCount, 0), y(kCount, 0), z(kCount, 0);
    x.set(terms_of(context.rank(), kCount));
    z.set(terms_of(context.rank(), kCount));
    const auto both = [&](const auto& call) {
      ASSERT_TRUE(context.barrier().ok());
      const Change change;
      ASSERT_TRUE(context.barrier().ok());
      const Status status = call();
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_TRUE(context.barrier().ok());
      const GpuUsage used = change.since();
      EXPECT_EQ(used.launches, 2U);
      EXPECT_EQ(used.bytes_out + used.bytes_in, 0U);
      EXPECT_EQ(used.with_aliases, 2U);
      ASSERT_TRUE(context.barrier().ok());
    };
    both([&] { return context.neighbor_allreduce(in(x.data(), kCount), out(y.data(), kCount)); });
    // In place, the input is copied first, on its GPU.
    both([&] { return context.neighbor_allreduce(in(z.data(), kCount), out(z.data(), kCount)); });
    EXPECT_EQ(z.get(), y.get());
    both([&] { return context.allreduce(in(x.data(), kCount), out(y.data(), kCount)); });
  });
}

TEST_F(GpuIpc, MemoryOfAPoolIsCopiedToABlockOfTheGpu) {
  if (!fake.is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  run_job(2, [&](Context& context) {
    meet(context);
    ASSERT_TRUE(context.barrier().ok());
    if (context.rank() == 0) fake.give_pool_memory(1);
    ASSERT_TRUE(context.barrier().ok());
    GpuArray<float> x(kCount, 0), y(kCount, 0);
    ASSERT_TRUE(context.barrier().ok());
    if (context.rank() == 0) fake.give_pool_memory(0);
    ASSERT_TRUE(context.barrier().ok());
    x.set(terms_of(context.rank(), kCount));
    const Change change;
    ASSERT_TRUE(context.barrier().ok());
    ASSERT_TRUE(context.allreduce(in(x.data(), kCount), out(y.data(), kCount), ReduceOp::sum).ok());
    ASSERT_TRUE(context.barrier().ok());
    const GpuUsage used = change.since();
    EXPECT_EQ(used.with_aliases, 2U);
    EXPECT_EQ(used.bytes_out + used.bytes_in, 0U);
    EXPECT_GE(used.bytes_inside, 4 * kBytes);
    std::vector<float> expected = terms_of(0, kCount);
    const std::vector<float> other = terms_of(1, kCount);
    for (std::size_t i = 0; i < kCount; ++i) expected[i] += other[i];
    EXPECT_EQ(y.get(), expected);
  });
}

TEST_F(GpuIpc, ReadsWhatTheStreamBeforeHasWritten) {
  run_job(2, [&](Context& context) {
    meet(context);
    GpuArray<float> x(kCount, 0), y(kCount, 0);
    void* const stream = fake.stream(0);
    const std::vector<float> values = terms_of(context.rank(), kCount);
    if (fake.is_fake()) fake.hold(stream);
    fake.copy_in(0, x.data(), values.data(), kBytes, stream);
    Request request{.collective = Collective::allreduce,
                    .input = in(x.data(), kCount),
                    .output = out(y.data(), kCount),
                    .op = ReduceOp::max};
    request.stream = Stream{stream};
    Result<Handle> handle = context.start(request);
    ASSERT_TRUE(handle.ok()) << handle.status().to_string();
    if (fake.is_fake()) {
      ASSERT_TRUE(context.barrier().ok());
      EXPECT_FALSE(handle->test());
      ASSERT_TRUE(context.barrier().ok());
      fake.release(stream);
    }
    ASSERT_TRUE(handle->wait().ok());
    std::vector<float> expected = terms_of(0, kCount);
    const std::vector<float> other = terms_of(1, kCount);
    for (std::size_t i = 0; i < kCount; ++i) expected[i] = std::max(expected[i], other[i]);
    EXPECT_EQ(y.get(), expected);
  });
}

// More allocations than a board names: those that nobody uses make room.
TEST_F(GpuIpc, ManyAllocationsOneAfterAnother) {
  run_job(2, [&](Context& context) {
    meet(context);
    std::vector<std::unique_ptr<GpuArray<float>>> kept;
    for (int i = 0; i < 70; ++i) {
      kept.push_back(std::make_unique<GpuArray<float>>(300'000, 0));
      GpuArray<float>& x = *kept.back();
      x.set(std::vector<float>(300'000, static_cast<float>(i + context.rank())));
      const Status status =
          context.allreduce(in(x.data(), 300'000), out(x.data(), 300'000), ReduceOp::sum);
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_EQ(x.get(), std::vector<float>(300'000, static_cast<float>(2 * i + 1)));
      if (i % 2 == 0) kept.pop_back();
    }
  });
}

TEST_F(GpuIpc, WithoutPermissionItGoesThroughBlocksAndSaysWhy) {
  const Change change;
  Config config = test_config();
  config.gpu_ipc = false;
  run_job(
      2,
      [](Context& context) {
        meet(context);
        EXPECT_NE(context.explain().find("WEFT_GPU_IPC is off"), std::string::npos)
            << context.explain();
      },
      config);
  EXPECT_EQ(change.since().with_aliases, 0U);
  EXPECT_GT(change.since().bytes_out, 0U);
}

TEST_F(GpuIpc, ALaunchThatFailsNamesTheGpu) {
  if (!fake.is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  const std::vector<Status> ended = outcomes(2, [&](Context& context) -> Status {
    meet(context);
    GpuArray<float> x(kCount, 0), y(kCount, 0);
    WEFT_RETURN_IF_ERROR(context.barrier());
    if (context.rank() == 0) fake.fail("cuLaunchKernel", 719, 2);
    WEFT_RETURN_IF_ERROR(context.barrier());
    return context.neighbor_allreduce(in(x.data(), kCount), out(y.data(), kCount));
  });
  for (const Status& status : ended) EXPECT_FALSE(status.ok());
  EXPECT_TRUE(std::ranges::any_of(ended, [](const Status& status) {
    return status.text().find("GPU 0: run a kernel") != std::string_view::npos;
  }));
}

// The device aliases themselves.
TEST_F(GpuIpc, AStandInLeadsToItsMemory) {
  GpuArray<float> x(kCount, 0);
  const GpuMemory gpu = *gpu_memory(x.data());
  ASSERT_TRUE(offer_gpu(gpu).ok());
  std::byte* address = nullptr;
  {
    Result<DeviceAlias> made = DeviceAlias::of(gpu, x.data() + 100, 1000);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    address = made->address();
    EXPECT_TRUE(is_device_alias(address));
    const Result<std::optional<Behind>> there = behind(gpu, address + 40, 960);
    ASSERT_TRUE(there.ok() && *there) << there.status().to_string();
    EXPECT_EQ((*there)->data, x.data() + 110);
    EXPECT_FALSE(behind(gpu, address + 40, 961).value()) << "beyond its end";
  }
  EXPECT_FALSE(is_device_alias(address));
  EXPECT_FALSE(is_device_alias(x.data()));
}

}  // namespace
}  // namespace weft
