// gpu_kernels: combine() of engine/kernels, copies of many pieces and conversions, on a GPU. The
// promises are those of engine/kernels: the bits are the same as on a CPU.
//
// nvcc compiles the kernels when Weft is built (kernels.cu) for compute capability 8.0, 9.0 and 10.0,
// and as PTX for others from 8.0 on; they are a part of the library. A build without nvcc, or with
// WEFT_CUDA=OFF, has none and says so.
//
// Threads: every function may be called by any thread.
#pragma once

#include <cstddef>
#include <span>

#include "engine/kernels/kernels.h"
#include "verbs/cuda/cuda.h"

namespace weft {

class GpuKernels {
 public:
  // The most terms of one combine, and the most copies of one launch.
  static const std::size_t kMostTerms, kMostCopies;

  // Those of the GPU that has this memory. Loaded once for each GPU. `unavailable`: why there are none.
  [[nodiscard]] static Result<const GpuKernels*> of(const GpuMemory& memory);

  // ok, or why there are none for such a GPU, as far as its compute capability says.
  [[nodiscard]] static Status check(const GpuDevice& gpu);

  // Queues destination[i] := the reduction over the terms, as combine() does it. Data and destination
  // are memory that this GPU reads and writes: its own, or pinned. One launch.
  [[nodiscard]] Status combine(GpuQueue& queue, DataType type, Reduction reduction,
                               std::span<const Term> terms, void* destination, std::size_t count,
                               double divisor = 1.0) const;
  struct Copy {
    const void* from = nullptr;
    void* to = nullptr;
    std::size_t bytes = 0;
  };
  // Queues all of these copies: one launch for kMostCopies.
  [[nodiscard]] Status copy(GpuQueue& queue, std::span<const Copy> copies) const;
  // Queues to[i] := from[i] as the other type; both are floating types.
  [[nodiscard]] Status cast(GpuQueue& queue, DataType from_type, const void* from, DataType to_type,
                            void* to, std::size_t count) const;

  // Queues a kernel that holds so many multiprocessors for so long, for measurements.
  [[nodiscard]] Status occupy(GpuQueue& queue, unsigned multiprocessors,
                              std::int64_t nanoseconds) const;

  explicit GpuKernels(const GpuCode& code) : code_(code) {}

 private:
  const GpuCode& code_;
};

}  // namespace weft
