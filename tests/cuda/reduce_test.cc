// Sums on a GPU, on the fake of the driver: the bits of the host's sums, how many launches and copies
// they take, that a lane does not wait for them, and what goes wrong. Ranks are threads.
#include <atomic>
#include <thread>

#include "tests/cuda/on_gpus.h"

namespace weft {
namespace {

constexpr std::size_t kLarge = 600'000;

Config config_of(GpuReduce sums) {
  Config config = test_config();
  config.gpu_reduce = sums;
  config.gpu_ipc = false;
  return config;
}

class GpuReduceTest : public OnGpus {};

TEST_F(GpuReduceTest, HaveTheBitsOfTheHost) {
  const std::uint64_t before = gpu_counts().launches;
  run_job(
      4,
      [](Context& context) {
        const Rank rank = context.rank();
        for (const int input : {rank % 2, rank % 3 - 1}) {
          const int output = (rank + 1) % 2;
          expect_same(context, {.collective = Collective::neighbor_allreduce}, kLarge, kLarge,
                      input, output);
          for (const AllreduceAlgorithm algorithm :
               {AllreduceAlgorithm::direct, AllreduceAlgorithm::split, AllreduceAlgorithm::ring}) {
            expect_same(
                context,
                {.collective = Collective::allreduce, .op = ReduceOp::sum, .algorithm = algorithm},
                kLarge, kLarge, input, output);
          }
          expect_same(context, {.collective = Collective::reduce, .op = ReduceOp::max, .root = 2},
                      kLarge, kLarge, input, output);
          expect_same(context, {.collective = Collective::reduce_scatter, .op = ReduceOp::sum},
                      4 * kLarge, kLarge, input, output);
        }
      },
      config_of(GpuReduce::gpu));
  EXPECT_GT(gpu_counts().launches, before);
}

// The result is written where it belongs: nothing is left to copy.
TEST_F(GpuReduceTest, ADirectSumIsOneLaunchAndNoCopyBack) {
  const GpuCounts before = gpu_counts();
  run_job(
      2,
      [](Context& context) {
        GpuArray<float> x(kLarge, 0), y(kLarge, 0);
        x.set(terms_of(context.rank(), kLarge));
        ASSERT_TRUE(context.neighbor_allreduce(in(x.data(), kLarge), out(y.data(), kLarge)).ok());
        // In place, too.
        ASSERT_TRUE(context.neighbor_allreduce(in(x.data(), kLarge), out(x.data(), kLarge)).ok());
        EXPECT_EQ(x.get(), y.get());
      },
      config_of(GpuReduce::gpu));
  const GpuCounts after = gpu_counts();
  EXPECT_EQ(after.launches - before.launches, 4U);
  EXPECT_EQ(after.bytes_in - before.bytes_in, 0U);
  EXPECT_EQ(after.bytes_out - before.bytes_out, 4 * kLarge * sizeof(float));
}

TEST_F(GpuReduceTest, SmallOnesAndThoseOfTheHostStayThere) {
  const std::uint64_t before = gpu_counts().launches;
  for (const GpuReduce sums : {GpuReduce::gpu, GpuReduce::host}) {
    run_job(
        2,
        [&](Context& context) {
          const std::size_t count = sums == GpuReduce::gpu ? 1000 : kLarge;
          expect_same(context, {.collective = Collective::allreduce}, count, count, 0, 0);
          expect_same(context, {.collective = Collective::allgather}, kLarge, 2 * kLarge, 0, 0);
        },
        config_of(sums));
  }
  EXPECT_EQ(gpu_counts().launches, before);
}

TEST_F(GpuReduceTest, SeveralLanesShareThem) {
  Config config = config_of(GpuReduce::gpu);
  config.lanes = 2;
  run_job(
      2,
      [](Context& context) {
        constexpr std::size_t kMany = 6 << 20;
        expect_same(context, {.collective = Collective::allreduce, .op = ReduceOp::sum}, kMany,
                    kMany, context.rank(), context.rank());
        expect_same(context, {.collective = Collective::neighbor_allreduce}, kMany, kMany, 0, 0);
      },
      config);
}

// The lane goes on with other operations while a GPU has work to do.
TEST_F(GpuReduceTest, ALaneDoesNotWaitForThem) {
  if (!FakeDriver::get().is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  fake.run_at_once(0);
  const std::uint64_t before = gpu_counts().launches;
  run_job(
      2,
      [&](Context& context) {
        GpuArray<float> x(kLarge, context.rank()), y(kLarge, context.rank());
        x.set(terms_of(context.rank(), kLarge));
        Request request{.collective = Collective::neighbor_allreduce,
                        .input = in(x.data(), kLarge),
                        .output = out(y.data(), kLarge)};
        Result<Handle> handle = context.start(request);
        ASSERT_TRUE(handle.ok());
        double small = context.rank(), sum = 0;
        const auto do_others = [&] {
          for (int i = 0; i < 3; ++i) {  // fewer than may be in flight
            const Status status = context.allreduce(in(&small, 1), out(&sum, 1), ReduceOp::sum);
            ASSERT_TRUE(status.ok()) << status.to_string();
            EXPECT_EQ(sum, 1.0);
          }
        };
        do_others();
        EXPECT_FALSE(handle->test()) << "its input is still on its way";
        if (context.rank() == 0) fake.run();
        do_others();
        EXPECT_EQ(gpu_counts().launches - before, 2U);
        EXPECT_FALSE(handle->test());
        ASSERT_TRUE(context.barrier().ok());
        if (context.rank() == 0) fake.run_at_once(1);
        ASSERT_TRUE(handle->wait().ok());
      },
      config_of(GpuReduce::gpu));
}

TEST_F(GpuReduceTest, AFailureNamesTheGpu) {
  if (!FakeDriver::get().is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  fake.fail("cuLaunchKernel", 719, 1);
  std::atomic<int> failures{0};
  run_job(
      2,
      [&](Context& context) {
        GpuArray<float> x(kLarge, 0), y(kLarge, 0);
        x.set(terms_of(context.rank(), kLarge));
        const Status status =
            context.neighbor_allreduce(in(x.data(), kLarge), out(y.data(), kLarge));
        if (status.ok()) return;
        if (status.code() == Code::system) {
          expect_names(status, Code::system, {"GPU 0", "run a kernel"});
          ++failures;
        }
      },
      config_of(GpuReduce::gpu));
  EXPECT_GE(failures, 1);
}

}  // namespace
}  // namespace weft
