// gpu: the same operation on GPU memory, and what it cannot do without: the copies to the host and
// back, or, where ranks read each other's memory, what the sums or copies cost on a GPU's own memory.
#pragma once

#include <memory>
#include <vector>

#include "tools/weft/perf/contenders.h"
#include "verbs/cuda/cuda.h"

namespace weft {

// GPU memory beside the host tensors of a measurement: inputs are rewritten and results checked
// on the host, and copied outside of what is timed.
class GpuTensors {
 public:
  // Of the GPU with the number of this rank on its machine, modulo their number.
  static Result<GpuTensors> make(const Tensors& host, DataType type, std::size_t output_count,
                                 bool in_place, Rank local_rank);
  GpuTensors(GpuTensors&& other) noexcept;
  GpuTensors& operator=(GpuTensors&&) = delete;
  ~GpuTensors();

  [[nodiscard]] void* x() const { return x_; }
  [[nodiscard]] void* y() const { return in_place_ ? x_ : y_; }

  // The host's input to x().
  Status copy_in();
  // The operation, which works on x() and y(), with its rewriting and checking.
  [[nodiscard]] Subject around(Subject subject);
  // A copy of the input to pinned memory and one of a result from it, at once.
  [[nodiscard]] Subject copies();
  // One sum of `terms` tensors of the GPU, or one copy of a tensor (terms: 1), as large as the output.
  // All ranks do it at the same time, as they do the operation.
  [[nodiscard]] Result<Subject> inside(DataType type, std::size_t terms);

 private:
  GpuTensors(const Tensors& host, std::size_t x_bytes, std::size_t y_bytes, Device device)
      : host_(&host), x_bytes_(x_bytes), y_bytes_(y_bytes), device_(device) {}
  Status copy_out();

  const Tensors* host_;
  std::size_t x_bytes_, y_bytes_;
  Device device_;
  bool in_place_ = false;
  void* x_ = nullptr;
  void* y_ = nullptr;
  PinnedBlock pinned_x_, pinned_y_;
  std::vector<DeviceBlock> terms_;  // of inside()
};

// A tensor of the host, and the same on a GPU if --memory device is asked for.
class PlacedTensor {
 public:
  static Result<PlacedTensor> make(std::size_t bytes, const PerfOptions& options, Rank local_rank);
  PlacedTensor(PlacedTensor&& other) noexcept
      : here_(std::move(other.here_)),
        there_(std::exchange(other.there_, nullptr)),
        bytes_(other.bytes_),
        device_(other.device_) {}
  PlacedTensor& operator=(PlacedTensor&&) = delete;
  ~PlacedTensor() { (void)deallocate(there_, device_); }

  // Where operations have it, and where the host reads and writes it.
  [[nodiscard]] void* there() const { return there_ == nullptr ? here_.data() : there_; }
  [[nodiscard]] void* here() const { return here_.data(); }
  // Copies from one to the other.
  Status put() const { return copy(there_, here_.data()); }
  Status get() const { return copy(here_.data(), there_); }

 private:
  PlacedTensor(Tensor here, std::size_t bytes) : here_(std::move(here)), bytes_(bytes) {}
  Status copy(void* to, const void* from) const;

  Tensor here_;
  void* there_ = nullptr;  // null: there is one, the host's
  std::size_t bytes_;
  Device device_;
};

}  // namespace weft
