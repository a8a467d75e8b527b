// gpu_limits: laps of many calls, timed by the host.
#include "tools/weft/perf/gpu_limits.h"

#include <weft/memory.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "engine/gpu_kernels/gpu_kernels.h"
#include "tools/limits/limits.h"

namespace weft {
namespace {

constexpr int kLaps = 5;
constexpr int kCalls = 10;  // of a lap

// GPU memory.
class Block {
 public:
  static Result<Block> make(std::size_t bytes, Device device) {
    WEFT_ASSIGN(void* data, allocate(bytes, device));
    return Block(data, device);
  }
  Block(Block&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), device_(other.device_) {}
  Block& operator=(Block&&) = delete;
  ~Block() {
    if (data_ != nullptr) (void)deallocate(data_, device_);
  }
  [[nodiscard]] void* data() const { return data_; }

 private:
  Block(void* data, Device device) : data_(data), device_(device) {}
  void* data_;
  Device device_;
};

// Seconds of one call, the median of the laps.
Result<double> seconds_of(GpuQueue& queue, int calls, const std::function<Status()>& call) {
  std::vector<double> laps;
  for (int lap = -1; lap < kLaps; ++lap) {
    const std::int64_t begin = now_ns();
    for (int i = 0; i < calls; ++i) WEFT_RETURN_IF_ERROR(call());
    WEFT_ASSIGN(const std::unique_ptr<GpuMark> mark, queue.mark([] {}));
    mark->wait();
    (void)mark->is_over();
    WEFT_RETURN_IF_ERROR(mark->status());
    if (lap >= 0)  // the first one warms up
      laps.push_back(static_cast<double>(now_ns() - begin) / 1e9 / calls);
  }
  return median(std::move(laps));
}

Result<GpuLimits::Sums> sums_of(const GpuKernels& kernels, GpuQueue& queue, DataType type,
                                std::span<const Block> terms, const Block& result,
                                std::size_t bytes, double inside_gbps) {
  GpuLimits::Sums sums;
  sums.type = name(type);
  for (std::size_t k = 1; k <= GpuLimits::kMostTerms; ++k) {
    std::vector<Term> some;
    for (const Block& each : terms.first(k)) some.push_back({each.data(), 0.5});
    WEFT_ASSIGN(const double seconds, seconds_of(queue, kCalls, [&] {
                  return kernels.combine(queue, type, Reduction::weighted_sum, some, result.data(),
                                         bytes / size_of(type));
                }));
    const double gbps = static_cast<double>((k + 1) * bytes) / seconds / 1e9;
    sums.shares[k - 1] = gbps / inside_gbps;
  }
  return sums;
}

Result<GpuLimits> limits_of(const GpuDevice& gpu, std::size_t bytes) {
  GpuLimits found;
  found.number = gpu.number;
  found.name = gpu.name;
  std::vector<Block> terms;
  for (std::size_t k = 0; k < GpuLimits::kMostTerms; ++k) {
    WEFT_ASSIGN(Block block, Block::make(bytes, Device{gpu.number}));
    terms.push_back(std::move(block));
  }
  WEFT_ASSIGN(const Block result, Block::make(bytes, Device{gpu.number}));
  const std::optional<GpuMemory> memory = gpu_memory(result.data());
  if (!memory) return Status(Code::system, "GPU memory is not known as such");
  WEFT_ASSIGN(const PinnedBlock pinned, PinnedBlock::take(bytes, *memory));
  WEFT_ASSIGN(const std::shared_ptr<GpuQueue> queue, GpuQueue::out_of(*memory, {}));
  const auto rate = [&](std::size_t moved, const std::function<Status()>& call) -> Result<double> {
    WEFT_ASSIGN(const double seconds, seconds_of(*queue, kCalls, call));
    return static_cast<double>(moved) / seconds / 1e9;
  };
  for (const Block& term : terms)
    WEFT_RETURN_IF_ERROR(queue->copy_in(term.data(), pinned.data(), bytes));
  WEFT_ASSIGN(found.out_gbps,
              rate(bytes, [&] { return queue->copy_out(pinned.data(), result.data(), bytes); }));
  WEFT_ASSIGN(found.in_gbps,
              rate(bytes, [&] { return queue->copy_in(result.data(), pinned.data(), bytes); }));
  WEFT_ASSIGN(found.inside_gbps, rate(2 * bytes, [&] {
                return queue->copy_inside(result.data(), terms[0].data(), bytes);
              }));
  const Result<const GpuKernels*> kernels = GpuKernels::of(*memory);
  if (!kernels.ok()) {
    found.no_kernels = kernels.status().text();
    return found;
  }
  const GpuKernels::Copy little{terms[0].data(), result.data(), 1};
  WEFT_ASSIGN(const double launch, seconds_of(*queue, 1, [&] {
                return (*kernels)->copy(*queue, {&little, 1});
              }));
  found.launch_us = launch * 1e6;
  for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16}) {
    WEFT_ASSIGN(GpuLimits::Sums sums,
                sums_of(**kernels, *queue, type, terms, result, bytes, found.inside_gbps));
    found.sums.push_back(std::move(sums));
  }
  return found;
}

}  // namespace

Result<std::vector<GpuLimits>> gpu_limits(std::size_t bytes) {
  WEFT_ASSIGN(const std::vector<GpuDevice> gpus, gpu_devices());
  std::vector<GpuLimits> all;
  for (const GpuDevice& gpu : gpus) {
    WEFT_ASSIGN(GpuLimits limits, limits_of(gpu, bytes));
    all.push_back(std::move(limits));
  }
  return all;
}

}  // namespace weft
