// raw: writes to the tensors of neighbors, and reads of them, without slots.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "engine/window/prepared_transfer.h"
#include "engine/window/window.h"

namespace weft {
using window::RawTask;
using window::Staging;

namespace {

constexpr std::string_view kWriteName = "win_write";

}  // namespace

Result<WindowObject::Write> WindowObject::check_write(Rank to, const Input& x,
                                                      std::span<const WindowPage> pages,
                                                      std::size_t page_bytes, int signal) const {
  if (signal != -1) WEFT_RETURN_IF_ERROR(check_signal(kWriteName, signal));
  const auto found = std::ranges::find(out_ranks_, to);
  if (found == out_ranks_.end())
    return invalid(kWriteName, fmt::format("has no out-neighbor {} at rank {}", to, setup_.self));
  WEFT_RETURN_IF_ERROR(check_raw(kWriteName, x.data, x.count, x.type));
  const std::size_t bytes = x.count * size_of(x.type);
  const std::size_t there = shape_.bytes();
  std::vector<RawTask::Part> parts;
  for (const WindowPage& page : pages) {
    if (page_bytes > bytes || page.local_offset > bytes - page_bytes || page_bytes > there ||
        page.remote_offset > there - page_bytes) {
      return invalid(kWriteName,
                     fmt::format("has {} bytes and was given {}: the page of {} bytes from "
                                 "{} to {} does not fit",
                                 there, bytes, page_bytes, page.local_offset, page.remote_offset));
    }
    // The const is cast away for one record that serves both directions; a write only reads.
    auto* from = static_cast<std::byte*>(const_cast<void*>(x.data));
    parts.push_back({from + page.local_offset, page_bytes, page.remote_offset});
  }
  const auto index = static_cast<std::size_t>(found - out_ranks_.begin());
  if (setup_.out[index].is_on_gpu && !parts.empty()) {
    return Status(Code::unavailable,
                  fmt::format("{}: {}: the tensor of rank {} is GPU memory, which nobody else "
                              "can write to; put() and a slot can",
                              kWriteName, title_, to),
                  to);
  }
  return Write{index, std::move(parts), signal};
}

Status WindowObject::write(Write write, const std::optional<Stream>& stream, Handle* handle) {
  Staging staging(stream, setup_.bell);
  std::vector<HostCopy::Part> sources;
  for (const RawTask::Part& part : write.parts)
    if (part.bytes != 0) sources.push_back({part.local, part.bytes});
  WEFT_ASSIGN(std::byte * here, staging.place(std::move(sources), Staging::Use::reads));
  for (RawTask::Part& part : write.parts) {
    if (here == nullptr) break;
    part.local = here;
    here += part.bytes;
  }
  const std::shared_ptr<Lane> lane = lane_.lock();
  if (lane == nullptr) return check_open();
  const Lane::Hold hold(*lane);
  WEFT_RETURN_IF_ERROR(check_open());
  const WindowNeighbor& to = setup_.out[write.index];
  WEFT_RETURN_IF_ERROR(named(kWriteName, to.tensor_access));
  auto task = std::make_shared<RawTask>(*this, to.tensor, std::move(write.parts),
                                        writers_[write.index].get(), write.signal);
  task->set_staging(std::move(staging));
  return handle != nullptr ? start_turn(lane, std::move(task), *handle) : run(*lane, *task);
}

Status WindowObject::write(Rank to, const Input& x, std::span<const WindowPage> pages,
                           std::size_t page_bytes, int signal, const std::optional<Stream>& stream,
                           Handle* handle) {
  WEFT_ASSIGN(Write checked, check_write(to, x, pages, page_bytes, signal));
  return write(std::move(checked), stream, handle);
}

Result<Prepared> WindowObject::prepare_write(Rank to, const Input& x,
                                             std::span<const WindowPage> pages,
                                             std::size_t page_bytes, int signal,
                                             const std::optional<Stream>& stream) {
  WEFT_RETURN_IF_ERROR(check_open());
  WEFT_ASSIGN(Write checked, check_write(to, x, pages, page_bytes, signal));
  auto call = [self = shared_from_this(), checked = std::move(checked), stream](Handle* handle) {
    return self->write(checked, stream, handle);
  };
  auto is_quick = [self = shared_from_this(), to] {
    return self->is_quick({&to, 1}, &WindowNeighbor::tensor);
  };
  return Prepared(
      std::make_shared<window::PreparedTransfer>(kWriteName, std::move(call), is_quick));
}

bool WindowObject::is_quick(std::span<const Rank> to, window::Place WindowNeighbor::*memory) {
  const std::shared_ptr<Lane> lane = lane_.lock();
  if (lane == nullptr) return true;  // an error is quick
  const Lane::Hold hold(*lane);
  return turns_.empty() && std::ranges::all_of(to, [this, memory](Rank rank) {
           const auto found = std::ranges::find(out_ranks_, rank);
           const auto index = static_cast<std::size_t>(found - out_ranks_.begin());
           return found == out_ranks_.end() || (setup_.out[index].*memory).memory.mapped != nullptr;
         });
}

Status WindowObject::read(Rank from, const Output& y, std::size_t remote_offset,
                          const std::optional<Stream>& stream) {
  constexpr std::string_view kName = "win_read";
  WEFT_RETURN_IF_ERROR(check_raw(kName, y.data, y.count, y.type));
  const std::size_t bytes = y.count * size_of(y.type);
  const WindowNeighbor* neighbor = nullptr;
  for (const auto* side : {&setup_.in, &setup_.out}) {
    for (const WindowNeighbor& each : *side) {
      if (each.part.rank == from) neighbor = &each;
    }
  }
  if (neighbor == nullptr)
    return invalid(kName, fmt::format("has no neighbor {} at rank {}", from, setup_.self));
  if (bytes > shape_.bytes() || remote_offset > shape_.bytes() - bytes) {
    return invalid(kName, fmt::format("has {} bytes: {} bytes from {} on are not inside",
                                      shape_.bytes(), bytes, remote_offset));
  }
  Staging staging(stream, setup_.bell);
  WEFT_ASSIGN(const Output here, place(y, staging, Staging::Use::writes));
  const std::shared_ptr<Lane> lane = lane_.lock();
  if (lane == nullptr) return check_open();
  const Lane::Hold hold(*lane);
  WEFT_RETURN_IF_ERROR(check_open());
  WEFT_RETURN_IF_ERROR(named(kName, neighbor->tensor_access));
  std::vector<RawTask::Part> parts{{static_cast<std::byte*>(here.data), bytes, remote_offset}};
  RawTask task(*this, neighbor->tensor, std::move(parts), nullptr, -1);
  task.set_staging(std::move(staging));
  return run(*lane, task);
}

}  // namespace weft
