// Tensors of a GPU for `weft perf --memory device`.
#include "tools/weft/perf/gpu.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/gpu/gpu.h"
#include "engine/gpu_kernels/gpu_kernels.h"

namespace weft {
namespace {

// Waits for all copies of the queue.
Status finish(GpuQueue& queue) {
  WEFT_ASSIGN(const std::unique_ptr<GpuMark> mark, queue.mark([] {}));
  mark->wait();
  (void)mark->is_over();
  return mark->status();
}

// The GPU with the number of this rank on its machine, modulo their number.
Result<Device> device_of(Rank local_rank) {
  WEFT_ASSIGN(const std::vector<GpuDevice> gpus, gpu_devices());
  if (gpus.empty()) return Status(Code::unavailable, "--memory device: there is no GPU");
  return Device{static_cast<int>(static_cast<std::size_t>(local_rank) % gpus.size())};
}

}  // namespace

Result<GpuTensors> GpuTensors::make(const Tensors& host, DataType type, std::size_t output_count,
                                    bool in_place, Rank local_rank) {
  WEFT_ASSIGN(const Device device, device_of(local_rank));
  GpuTensors made(host, host.count * size_of(type), output_count * size_of(type), device);
  made.in_place_ = in_place;
  WEFT_ASSIGN(made.x_, allocate(made.x_bytes_, made.device_));
  WEFT_ASSIGN(made.y_, allocate(made.y_bytes_, made.device_));
  const std::optional<GpuMemory> memory = gpu_memory(made.x_);
  if (!memory) return Status(Code::system, "GPU memory is not known as such");
  WEFT_ASSIGN(made.pinned_x_, PinnedBlock::take(made.x_bytes_, *memory));
  WEFT_ASSIGN(made.pinned_y_, PinnedBlock::take(made.y_bytes_, *memory));
  return made;
}

GpuTensors::GpuTensors(GpuTensors&& other) noexcept
    : host_(other.host_),
      x_bytes_(other.x_bytes_),
      y_bytes_(other.y_bytes_),
      device_(other.device_),
      in_place_(other.in_place_),
      x_(std::exchange(other.x_, nullptr)),
      y_(std::exchange(other.y_, nullptr)),
      pinned_x_(std::move(other.pinned_x_)),
      pinned_y_(std::move(other.pinned_y_)),
      terms_(std::move(other.terms_)) {}

GpuTensors::~GpuTensors() {
  (void)deallocate(x_, device_);
  (void)deallocate(y_, device_);
}

Status GpuTensors::copy_in() {
  if (x_bytes_ == 0) return {};
  std::memcpy(pinned_x_.data(), host_->x.data(), x_bytes_);
  const auto memory = gpu_memory(x_);
  if (!memory) return Status(Code::system, "GPU memory has gone");
  WEFT_ASSIGN(const std::shared_ptr<GpuQueue> queue, GpuQueue::into(*memory));
  WEFT_RETURN_IF_ERROR(queue->copy_in(x_, pinned_x_.data(), x_bytes_));
  return finish(*queue);
}

Status GpuTensors::copy_out() {
  if (y_bytes_ == 0) return {};
  const auto memory = gpu_memory(y());
  if (!memory) return Status(Code::system, "GPU memory has gone");
  WEFT_ASSIGN(const std::shared_ptr<GpuQueue> queue, GpuQueue::out_of(*memory, {}));
  WEFT_RETURN_IF_ERROR(queue->copy_out(pinned_y_.data(), y(), y_bytes_));
  WEFT_RETURN_IF_ERROR(finish(*queue));
  std::memcpy(in_place_ ? host_->x.data() : host_->y.data(), pinned_y_.data(), y_bytes_);
  return {};
}

Subject GpuTensors::around(Subject subject) {
  Subject around;
  around.rewrite = [this, rewrite = subject.rewrite](std::uint64_t lap) {
    if (rewrite) rewrite(lap);
    if (const Status status = copy_in(); !status.ok()) log(LogLevel::error, status.to_string());
  };
  around.run = subject.run;
  if (subject.check) {
    around.check = [this, check = subject.check](std::uint64_t lap) -> Status {
      WEFT_RETURN_IF_ERROR(copy_out());
      return check(lap);
    };
  }
  return around;
}

Subject GpuTensors::copies() {
  Subject subject;
  subject.run = [this](int times) -> Status {
    const auto memory = gpu_memory(x_);
    if (!memory) return {};  // nothing to copy
    WEFT_ASSIGN(const std::shared_ptr<GpuQueue> out, GpuQueue::out_of(*memory, {}));
    WEFT_ASSIGN(const std::shared_ptr<GpuQueue> in, GpuQueue::into(*memory));
    for (int i = 0; i < times; ++i) {
      WEFT_RETURN_IF_ERROR(out->copy_out(pinned_x_.data(), x_, x_bytes_));
      WEFT_RETURN_IF_ERROR(in->copy_in(y_, pinned_y_.data(), y_bytes_));
      WEFT_RETURN_IF_ERROR(finish(*out));
      WEFT_RETURN_IF_ERROR(finish(*in));
    }
    return {};
  };
  return subject;
}

Result<Subject> GpuTensors::inside(DataType type, std::size_t terms) {
  Subject subject;
  const std::optional<GpuMemory> memory = gpu_memory(y());
  if (!memory || y_bytes_ == 0) {
    subject.run = [](int) { return Status(); };
    return subject;
  }
  while (terms_.size() < std::max<std::size_t>(terms, 1)) {
    WEFT_ASSIGN(DeviceBlock block, DeviceBlock::take(y_bytes_, *memory));
    terms_.push_back(std::move(block));
  }
  WEFT_ASSIGN(const GpuKernels* kernels, GpuKernels::of(*memory));
  WEFT_ASSIGN(const std::shared_ptr<GpuQueue> queue, GpuQueue::into(*memory));
  std::vector<Term> from;
  for (const DeviceBlock& block : terms_) from.push_back({block.data(), 0.5});
  subject.run = [this, type, kernels, queue, from](int times) -> Status {
    for (int i = 0; i < times; ++i) {
      if (from.size() == 1) {
        WEFT_RETURN_IF_ERROR(queue->copy_inside(y_, from[0].data, y_bytes_));
      } else {
        WEFT_RETURN_IF_ERROR(kernels->combine(*queue, type, Reduction::weighted_sum, from, y_,
                                              y_bytes_ / size_of(type)));
      }
      WEFT_RETURN_IF_ERROR(finish(*queue));
    }
    return {};
  };
  return subject;
}

Result<PlacedTensor> PlacedTensor::make(std::size_t bytes, const PerfOptions& options,
                                        Rank local_rank) {
  WEFT_ASSIGN(Tensor here, Tensor::make(bytes, options.is_private()));
  PlacedTensor made(std::move(here), bytes);
  if (options.asked.memory != "device") return made;
  WEFT_ASSIGN(made.device_, device_of(local_rank));
  WEFT_ASSIGN(made.there_, allocate(bytes, made.device_));
  return made;
}

Status PlacedTensor::copy(void* to, const void* from) const {
  constexpr std::int64_t kPatienceMs = 60'000;
  return there_ == nullptr ? Status() : copy_memory(to, from, bytes_, kPatienceMs);
}

}  // namespace weft
