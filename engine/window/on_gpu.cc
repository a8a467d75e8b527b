// Copies of a call.
#include "engine/window/on_gpu.h"

#include <fmt/core.h>

#include <utility>

namespace weft::window {

Status Staging::follow(std::shared_ptr<HostCopy> copy, bool is_read) {
  WEFT_ASSIGN(std::shared_ptr<GpuQueue> queue, copy->behind(stream_));
  fetches_.push_back({std::move(copy), std::move(queue), is_read});
  return {};
}

Result<std::byte*> Staging::place(std::vector<HostCopy::Part> parts, Use use) {
  if (parts.empty()) return nullptr;
  std::byte* const first = parts.front().there;
  WEFT_ASSIGN(const std::optional<GpuMemory> gpu, find_gpu_memory(first));
  if (!gpu) return nullptr;
  WEFT_ASSIGN(std::shared_ptr<HostCopy> copy, HostCopy::make(std::move(parts), *gpu, bell_));
  WEFT_RETURN_IF_ERROR(follow(copy, use != Use::writes));
  if (use != Use::reads) stores(copy);
  return copy->data();
}

Status Staging::fetch() {
  for (const Fetch& each : fetches_) {
    WEFT_RETURN_IF_ERROR(each.is_read ? each.copy->fetch(*each.queue)
                                      : each.copy->follow(*each.queue));
  }
  return {};
}

Status Staging::store() {
  for (const auto& each : stores_) WEFT_RETURN_IF_ERROR(each->store());
  return {};
}

bool Staging::is_over() {
  for (const Fetch& each : fetches_) {
    if (!each.copy->is_over()) return false;
    if (status_.ok()) status_ = each.copy->status();
  }
  for (const auto& each : stores_) {
    if (!each->is_over()) return false;
    if (status_.ok()) status_ = each->status();
  }
  return true;
}

Status Staging::too_late() const {
  const HostCopy& first = fetches_.empty() ? *stores_.front() : *fetches_.front().copy;
  return Status(Code::timed_out,
                fmt::format("a copy from or to GPU {} has not ended: what its stream has before it "
                            "takes too long",
                            first.device()));
}

}  // namespace weft::window
