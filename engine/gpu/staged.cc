// Copies for which the caller waits.
#include "engine/gpu/staged.h"

#include <fmt/core.h>
#include <weft/macros.h>

#include <chrono>
#include <thread>

#include "engine/gpu/gpu.h"

namespace weft {
namespace {

constexpr auto kCopyNap = std::chrono::microseconds(50);

}  // namespace

Result<Staged> Staged::make(const void* memory, std::size_t bytes, std::int64_t patience_ms) {
  Staged made;
  made.memory_ = static_cast<std::byte*>(const_cast<void*>(memory));
  made.patience_ms_ = patience_ms;
  if (bytes == 0) return made;
  WEFT_ASSIGN(const std::optional<GpuMemory> gpu, find_gpu_memory(memory));
  if (!gpu) return made;
  WEFT_ASSIGN(made.copy_,
              HostCopy::make({{made.memory_, bytes}}, *gpu, std::make_shared<GpuBell>([] {})));
  return made;
}

Status Staged::wait() {
  const Deadline deadline = Deadline::after_ms(patience_ms_);
  while (!copy_->is_over()) {
    if (deadline.passed()) {
      return Status(Code::timed_out, fmt::format("GPU {} does not end a copy in {} ms",
                                                 copy_->device(), patience_ms_));
    }
    std::this_thread::sleep_for(kCopyNap);
  }
  return copy_->status();
}

Status Staged::fetch(const std::optional<Stream>& stream) {
  if (!is_on_gpu()) return {};
  WEFT_ASSIGN(const std::shared_ptr<GpuQueue> queue, copy_->behind(stream));
  WEFT_RETURN_IF_ERROR(copy_->fetch(*queue));
  return wait();
}

Status Staged::store(const std::optional<Stream>& stream) {
  if (!is_on_gpu()) return {};
  WEFT_ASSIGN(const std::shared_ptr<GpuQueue> queue, copy_->behind(stream));
  WEFT_RETURN_IF_ERROR(copy_->follow(*queue));
  WEFT_RETURN_IF_ERROR(wait());
  WEFT_RETURN_IF_ERROR(copy_->store());
  return wait();
}

}  // namespace weft
