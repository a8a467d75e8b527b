// host_copy: host memory in the place of GPU memory, for what the host reads and writes.
//
//   auto copy = HostCopy::make({{x, bytes}}, gpu, bell);
//   auto queue = copy->behind(stream);      // when the call is made
//   copy->fetch(*queue);                    // when its turn comes
//   … copy->is_over() …                     // then the bytes of x are at copy->data()
//   copy->store();                          // and back
//
// Nothing waits on the host: the bell rings when a copy is over. Threads: one at a time. Lifetime: the
// memory stays until the copies are done, whoever has gone.
#pragma once

#include <weft/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "verbs/base/base.h"
#include "verbs/cuda/cuda.h"

namespace weft {

class GpuBell;

class HostCopy {
 public:
  // A part of the memory; the copy has one part after the other.
  struct Part {
    std::byte* there = nullptr;
    std::size_t bytes = 0;
  };
  // exhausted: memory cannot be pinned.
  static Result<std::shared_ptr<HostCopy>> make(std::vector<Part> parts, const GpuMemory& gpu,
                                                std::shared_ptr<GpuBell> bell);

  [[nodiscard]] std::byte* data() const { return block_->data(); }
  [[nodiscard]] int device() const { return gpu_.device; }
  // For copies behind what is queued in the stream now (absent: the default stream).
  // invalid_argument: the stream is being captured.
  Result<std::shared_ptr<GpuQueue>> behind(const std::optional<Stream>& stream) const;
  // Begins to copy from the GPU. timed_out, also of the next two: what began before is not over.
  Status fetch(GpuQueue& queue);
  // Copies nothing: is over when the queue has come so far.
  Status follow(GpuQueue& queue);
  // Begins to copy to the GPU. What the stream had must be done.
  Status store();
  // Whether what began last has ended; status() has its error.
  [[nodiscard]] bool is_over();
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  HostCopy(std::vector<Part> parts, const GpuMemory& gpu, PinnedBlock block,
           std::shared_ptr<GpuBell> bell);
  Status check_free();

  const std::vector<Part> parts_;
  const GpuMemory gpu_;
  const std::shared_ptr<const PinnedBlock> block_;
  const std::shared_ptr<GpuBell> bell_;
  std::unique_ptr<GpuMark> mark_;  // of what is under way; else null
  Status status_;
};

}  // namespace weft
