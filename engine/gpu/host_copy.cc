// Copies between a pinned block and GPU memory.
#include "engine/gpu/host_copy.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "engine/gpu/gpu.h"

namespace weft {

HostCopy::HostCopy(std::vector<Part> parts, const GpuMemory& gpu, PinnedBlock block,
                   std::shared_ptr<GpuBell> bell)
    : parts_(std::move(parts)),
      gpu_(gpu),
      block_(std::make_shared<const PinnedBlock>(std::move(block))),
      bell_(std::move(bell)) {}

Result<std::shared_ptr<HostCopy>> HostCopy::make(std::vector<Part> parts, const GpuMemory& gpu,
                                                 std::shared_ptr<GpuBell> bell) {
  std::size_t bytes = 0;
  for (const Part& each : parts) bytes += each.bytes;
  WEFT_ASSIGN(PinnedBlock block, PinnedBlock::take(std::max<std::size_t>(bytes, 1), gpu));
  WEFT_RETURN_IF_ERROR(GpuQueue::prepare(gpu));
  return std::shared_ptr<HostCopy>(
      new HostCopy(std::move(parts), gpu, std::move(block), std::move(bell)));
}

Result<std::shared_ptr<GpuQueue>> HostCopy::behind(const std::optional<Stream>& stream) const {
  const Stream named = stream.value_or(Stream{});
  WEFT_ASSIGN(std::shared_ptr<GpuQueue> queue, GpuQueue::out_of(gpu_, named));
  WEFT_RETURN_IF_ERROR(queue->wait_for(named));
  return queue;
}

Status HostCopy::check_free() {
  if (is_over()) return {};
  return Status(
      Code::timed_out,
      fmt::format("GPU {}: an earlier copy, which came too late, is still under way", gpu_.device));
}

Status HostCopy::fetch(GpuQueue& queue) {
  WEFT_RETURN_IF_ERROR(check_free());
  std::byte* here = data();
  for (const Part& each : parts_) {
    WEFT_RETURN_IF_ERROR(queue.copy_out(here, each.there, each.bytes));
    here += each.bytes;
  }
  return follow(queue);
}

Status HostCopy::store() {
  WEFT_RETURN_IF_ERROR(check_free());
  WEFT_ASSIGN(const std::shared_ptr<GpuQueue> queue, GpuQueue::into(gpu_));
  const std::byte* here = data();
  for (const Part& each : parts_) {
    WEFT_RETURN_IF_ERROR(queue->copy_in(each.there, here, each.bytes));
    here += each.bytes;
  }
  return follow(*queue);
}

Status HostCopy::follow(GpuQueue& queue) {
  WEFT_RETURN_IF_ERROR(check_free());
  status_ = {};
  WEFT_ASSIGN(mark_, queue.mark([bell = bell_, block = block_] { bell->ring(); }));
  return {};
}

bool HostCopy::is_over() {
  if (mark_ == nullptr) return true;
  if (!mark_->is_over()) return false;
  status_ = mark_->status();
  mark_.reset();
  return true;
}

}  // namespace weft
