// gpu_kernels: arguments, and the size of a launch.
#include "engine/gpu_kernels/gpu_kernels.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "engine/gpu_kernels/bodies.h"
#include "engine/gpu_kernels/image.h"

namespace weft {
namespace {

constexpr unsigned kThreads = 256;  // of a block
// Enough for every multiprocessor of today's GPUs several times over; a thread then takes several
// chunks.
constexpr std::uint64_t kMostBlocks = 2048;

constexpr int kLeastMajor = 8;  // of the compute capability

Status check_image() {
  if (!gpu::image().empty()) return {};
  return Status(Code::unavailable, "this build of Weft has no kernels for GPUs (no nvcc)");
}

// All kernels are looked up before the first one runs. A driver that loads a kernel at its first use
// may wait for the whole GPU, and so for streams that wait for this operation.
Status look_up_all(const GpuCode& code) {
#define WEFT_KERNEL(name, function, Arguments) "weft_" #name,
  for (const char* name : {WEFT_KERNELS(WEFT_KERNEL)})
    WEFT_RETURN_IF_ERROR(code.function(name).status());
#undef WEFT_KERNEL
  return {};
}

// Workers for so many bytes, a chunk each.
unsigned blocks_for(std::uint64_t bytes) {
  const std::uint64_t chunks = (bytes + gpu::kChunkBytes - 1) / gpu::kChunkBytes;
  return static_cast<unsigned>(
      std::clamp<std::uint64_t>((chunks + kThreads - 1) / kThreads, 1, kMostBlocks));
}

}  // namespace

const std::size_t GpuKernels::kMostTerms = gpu::kMostTerms;
const std::size_t GpuKernels::kMostCopies = gpu::kMostCopies;

Status GpuKernels::check(const GpuDevice& gpu) {
  WEFT_RETURN_IF_ERROR(check_image());
  if (gpu.major >= kLeastMajor) return {};
  return Status(Code::unavailable, fmt::format("its compute capability {}.{} is below {}.0",
                                               gpu.major, gpu.minor, kLeastMajor));
}

Result<const GpuKernels*> GpuKernels::of(const GpuMemory& memory) {
  WEFT_RETURN_IF_ERROR(check_image());
  static std::mutex mutex;
  static auto& known = *new std::map<void*, std::unique_ptr<GpuKernels>>;  // by context
  const std::lock_guard lock(mutex);
  std::unique_ptr<GpuKernels>& kernels = known[memory.context];
  if (kernels == nullptr) {
    WEFT_ASSIGN(const GpuCode* code, GpuCode::load(memory, gpu::image()));
    WEFT_RETURN_IF_ERROR(look_up_all(*code));
    kernels = std::make_unique<GpuKernels>(*code);
  }
  return kernels.get();
}

Status GpuKernels::combine(GpuQueue& queue, DataType type, Reduction reduction,
                           std::span<const Term> terms, void* destination, std::size_t count,
                           double divisor) const {
  WEFT_RETURN_IF_ERROR(check_reduction(type, reduction));
  if (terms.empty() || terms.size() > kMostTerms) {
    return Status(Code::invalid_argument,
                  fmt::format("a GPU combines 1 to {} terms, not {}", kMostTerms, terms.size()));
  }
  if (count == 0) return {};
  gpu::CombineArguments arguments;
  for (std::size_t t = 0; t < terms.size(); ++t) {
    arguments.data[t] = terms[t].data;
    arguments.weights[t] = terms[t].weight;
  }
  arguments.destination = destination;
  arguments.count = count;
  arguments.divisor = divisor;
  arguments.terms = static_cast<std::uint32_t>(terms.size());
  const std::string name =
      fmt::format("weft_combine_{}_{}", weft::name(type), weft::name(reduction));
  WEFT_ASSIGN(void* function, code_.function(name.c_str()));
  return queue.launch(function, blocks_for(count * size_of(type)), kThreads, &arguments);
}

Status GpuKernels::copy(GpuQueue& queue, std::span<const Copy> copies) const {
  WEFT_ASSIGN(void* function, code_.function("weft_copy"));
  while (!copies.empty()) {
    const auto batch = copies.first(std::min<std::size_t>(copies.size(), kMostCopies));
    gpu::CopyArguments arguments;
    std::uint64_t most = 0;
    for (std::size_t c = 0; c < batch.size(); ++c) {
      arguments.from[c] = batch[c].from;
      arguments.to[c] = batch[c].to;
      arguments.bytes[c] = batch[c].bytes;
      most = std::max<std::uint64_t>(most, batch[c].bytes);
    }
    arguments.copies = static_cast<std::uint32_t>(batch.size());
    WEFT_RETURN_IF_ERROR(queue.launch(function, blocks_for(most), kThreads, &arguments));
    copies = copies.subspan(batch.size());
  }
  return {};
}

// Blocks go to different multiprocessors, as long as there are some.
Status GpuKernels::occupy(GpuQueue& queue, unsigned multiprocessors,
                          std::int64_t nanoseconds) const {
  constexpr unsigned kMostThreads = 1024;  // of a block
  gpu::OccupyArguments arguments{static_cast<std::uint64_t>(nanoseconds)};
  WEFT_ASSIGN(void* function, code_.function("weft_occupy"));
  return queue.launch(function, multiprocessors, kMostThreads, &arguments);
}

Status GpuKernels::cast(GpuQueue& queue, DataType from_type, const void* from, DataType to_type,
                        void* to, std::size_t count) const {
  if (!is_floating(from_type) || !is_floating(to_type)) {
    return Status(Code::invalid_argument,
                  fmt::format("no conversion of {} to {} on a GPU: both must be floating types",
                              weft::name(from_type), weft::name(to_type)));
  }
  if (count == 0) return {};
  gpu::CastArguments arguments{from, to, count};
  const std::string name =
      fmt::format("weft_cast_{}_{}", weft::name(from_type), weft::name(to_type));
  WEFT_ASSIGN(void* function, code_.function(name.c_str()));
  return queue.launch(function, blocks_for(count * gpu::kChunkBytes), kThreads, &arguments);
}

}  // namespace weft
