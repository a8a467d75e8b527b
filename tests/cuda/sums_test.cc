// Sums on a GPU, on the twin of the driver: the bits of the host's sums, how many launches and copies
// they take, that a lane does not wait for them, and what goes wrong. Ranks are threads.
#include <atomic>
#include <thread>

#include "engine/gpu_kernels/gpu_kernels.h"
#include "tests/context/outcomes.h"
#include "tests/cuda/twin_library.h"
#include "verbs/cuda/cuda.h"

namespace weft {
namespace {

constexpr std::size_t kLarge = 600'000;

Config config_of(GpuSums sums) {
  Config config = test_config();
  config.gpu_sums = sums;
  config.gpu_ipc = false;
  return config;
}

class GpuSumsTest : public testing::Test {
 protected:
  void SetUp() override {
    twin.reset();
    const GpuArray<float> any(1, 0);
    const Status found = GpuKernels::of(*gpu_memory(any.data())).status();
    if (found.text().find("no nvcc") != std::string_view::npos) GTEST_SKIP() << found.text();
    ASSERT_TRUE(found.ok()) << found.to_string();
  }
  void TearDown() override { twin.reset(); }

  const Twin& twin = Twin::get();
};

// Sums of these depend on their order.
std::vector<float> values_of(Rank rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = 1.0F / static_cast<float>(1 + (i * 7 + static_cast<std::size_t>(rank) * 13) % 101);
  return values;
}

// Runs the request on the host and on GPUs; rank r's ends are on these GPUs, or on the host (-1).
void expect_same(Context& context, Request request, std::size_t in_count, std::size_t out_count,
                 int input, int output) {
  std::vector<float> host_x = values_of(context.rank(), in_count), host_y(out_count, -1);
  GpuArray<float> x(in_count, input), y(out_count, output);
  request.input = in(host_x.data(), in_count);
  request.output = out(host_y.data(), out_count);
  ASSERT_TRUE(context.run(request).ok());
  x.set(host_x);
  y.set(std::vector<float>(out_count, -1));
  request.input = in(x.data(), in_count);
  request.output = out(y.data(), out_count);
  const Status status = context.run(request);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(y.get(), host_y);
  EXPECT_EQ(x.get(), host_x);
}

TEST_F(GpuSumsTest, HaveTheBitsOfTheHost) {
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
      config_of(GpuSums::gpu));
  EXPECT_GT(gpu_counts().launches, before);
}

// The result is written where it belongs: nothing is left to copy.
TEST_F(GpuSumsTest, ADirectSumIsOneLaunchAndNoCopyBack) {
  const GpuCounts before = gpu_counts();
  run_job(
      2,
      [](Context& context) {
        GpuArray<float> x(kLarge, 0), y(kLarge, 0);
        x.set(values_of(context.rank(), kLarge));
        ASSERT_TRUE(context.neighbor_allreduce(in(x.data(), kLarge), out(y.data(), kLarge)).ok());
        // In place, too.
        ASSERT_TRUE(context.neighbor_allreduce(in(x.data(), kLarge), out(x.data(), kLarge)).ok());
        EXPECT_EQ(x.get(), y.get());
      },
      config_of(GpuSums::gpu));
  const GpuCounts after = gpu_counts();
  EXPECT_EQ(after.launches - before.launches, 4U);
  EXPECT_EQ(after.bytes_in - before.bytes_in, 0U);
  EXPECT_EQ(after.bytes_out - before.bytes_out, 4 * kLarge * sizeof(float));
}

TEST_F(GpuSumsTest, SmallOnesAndThoseOfTheHostStayThere) {
  const std::uint64_t before = gpu_counts().launches;
  for (const GpuSums sums : {GpuSums::gpu, GpuSums::host}) {
    run_job(
        2,
        [&](Context& context) {
          const std::size_t count = sums == GpuSums::gpu ? 1000 : kLarge;
          expect_same(context, {.collective = Collective::allreduce}, count, count, 0, 0);
          expect_same(context, {.collective = Collective::allgather}, kLarge, 2 * kLarge, 0, 0);
        },
        config_of(sums));
  }
  EXPECT_EQ(gpu_counts().launches, before);
}

TEST_F(GpuSumsTest, SeveralLanesShareThem) {
  Config config = config_of(GpuSums::gpu);
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
TEST_F(GpuSumsTest, ALaneDoesNotWaitForThem) {
  if (!Twin::get().is_played()) GTEST_SKIP() << "only the twin can play this";
  twin.run_at_once(0);
  const std::uint64_t before = gpu_counts().launches;
  run_job(
      2,
      [&](Context& context) {
        GpuArray<float> x(kLarge, context.rank()), y(kLarge, context.rank());
        x.set(values_of(context.rank(), kLarge));
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
        if (context.rank() == 0) twin.run();
        do_others();
        EXPECT_EQ(gpu_counts().launches - before, 2U);
        EXPECT_FALSE(handle->test());
        ASSERT_TRUE(context.barrier().ok());
        if (context.rank() == 0) twin.run_at_once(1);
        ASSERT_TRUE(handle->wait().ok());
      },
      config_of(GpuSums::gpu));
}

TEST_F(GpuSumsTest, AFailureNamesTheGpu) {
  if (!Twin::get().is_played()) GTEST_SKIP() << "only the twin can play this";
  twin.fail("cuLaunchKernel", 719, 1);
  std::atomic<int> failures{0};
  run_job(
      2,
      [&](Context& context) {
        GpuArray<float> x(kLarge, 0), y(kLarge, 0);
        x.set(values_of(context.rank(), kLarge));
        const Status status =
            context.neighbor_allreduce(in(x.data(), kLarge), out(y.data(), kLarge));
        if (status.ok()) return;
        if (status.code() == Code::system) {
          expect_names(status, Code::system, {"GPU 0", "run a kernel"});
          ++failures;
        }
      },
      config_of(GpuSums::gpu));
  EXPECT_GE(failures, 1);
}

}  // namespace
}  // namespace weft
