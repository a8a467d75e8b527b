// An operation beside a kernel that holds half of the GPU's multiprocessors: it gives what it gives alone,
// and on a GPU the test prints how long both take together.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "tests/cuda/on_gpus.h"

namespace weft {
namespace {

class GpuOverlap : public OnGpus {
 protected:
  // The first ranks have a GPU each, and launch the kernel.
  struct Own {
    GpuMemory gpu;
    unsigned multiprocessors = 1;
    std::shared_ptr<GpuQueue> queue;
    const GpuKernels* kernels = nullptr;
    bool launches = false;
  };
  static Own own_of(const GpuArray<float>& x, Rank rank) {
    Own own;
    own.gpu = *gpu_memory(x.data());
    const std::vector<GpuDevice> all = gpu_devices().value();
    const int found = all[static_cast<std::size_t>(own.gpu.device)].multiprocessors;
    own.multiprocessors = static_cast<unsigned>(std::max(found / 2, 1));
    own.queue = GpuQueue::own(own.gpu).value();
    own.kernels = GpuKernels::of(own.gpu).value();
    own.launches = rank < FakeDriver::get().devices();
    return own;
  }
  // The median of some laps, which all ranks begin together.
  template <typename Lap>
  static std::int64_t median_ns(Context& context, const Lap& lap) {
    constexpr int kLaps = 15;
    std::vector<std::int64_t> laps;
    for (int i = 0; i < kLaps; ++i) {
      EXPECT_TRUE(context.barrier().ok());
      const std::int64_t begin = now_ns();
      lap();
      laps.push_back(now_ns() - begin);
    }
    std::ranges::sort(laps);
    return laps[laps.size() / 2];
  }
};

TEST_F(GpuOverlap, WithAKernelOnHalfOfTheMultiprocessors) {
  const std::size_t count = fake.is_fake() ? 300'000 : std::size_t{16} << 20;
  run_job(2, [&](Context& context) {
    GpuArray<float> x(count, context.rank()), y(count, context.rank());
    x.set(std::vector<float>(count, static_cast<float>(context.rank() + 1)));
    const Own own = own_of(x, context.rank());
    const auto run = [&] {
      const Status status = context.neighbor_allreduce(in(x.data(), count), out(y.data(), count));
      EXPECT_TRUE(status.ok()) << status.to_string();
    };
    const auto begin = [&](std::int64_t ns) {
      if (!own.launches) return std::unique_ptr<GpuMark>();
      EXPECT_TRUE(own.kernels->occupy(*own.queue, own.multiprocessors, ns).ok());
      return own.queue->mark([] {}).value();
    };
    const auto finish = [](const std::unique_ptr<GpuMark>& mark) {
      if (mark != nullptr) mark->wait();
    };
    for (int i = 0; i < 5; ++i) run();
    const std::int64_t alone = median_ns(context, run);
    const std::int64_t kernel = median_ns(context, [&] { finish(begin(alone)); });
    const std::int64_t both = median_ns(context, [&] {
      const std::unique_ptr<GpuMark> mark = begin(alone);
      run();
      finish(mark);
    });
    EXPECT_EQ(y.get(), std::vector<float>(count, 1.5F));
    if (fake.is_fake() || context.rank() != 0) return;
    constexpr double kLimit = 1.1, kNsPerUs = 1e3;
    const double ratio = static_cast<double>(both) / static_cast<double>(std::max(alone, kernel));
    std::printf(
        "neighbor_allreduce of %zu MiB: %.0f us; a kernel on %u multiprocessors: %.0f us; both: "
        "%.0f us, "
        "%.2f times the longer (<= %.1f: %s)\n",
        count * sizeof(float) >> 20, static_cast<double>(alone) / kNsPerUs, own.multiprocessors,
        static_cast<double>(kernel) / kNsPerUs, static_cast<double>(both) / kNsPerUs, ratio, kLimit,
        ratio <= kLimit ? "met" : "short");
  });
}

}  // namespace
}  // namespace weft
