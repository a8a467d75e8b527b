// healing_call: see the header.
#include "engine/context/healing_call.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "engine/context/operands.h"
#include "engine/gpu/gpu.h"
#include "scheduler/vocabulary/vocabulary.h"
#include "verbs/cuda/cuda.h"

namespace weft {
namespace {

bool is_on_gpu(const void* memory) {
  return may_have_gpu_memory() && gpu_memory(memory).has_value();
}

std::size_t bytes_of(const Input& x) {
  return x.count * size_of(x.type);
}

// A call whose input is lost when it has run in part.
bool is_in_place(const Request& request) {
  constexpr auto kBoth = [](Collective each) {
    return has<kReadsInput>(each) && has<kWritesOutput>(each);
  };
  return kBoth(request.collective) && !has<kHasCounts>(request.collective) &&
         request.collective != Collective::broadcast && request.input.count != 0 &&
         request.input.data == request.output.data;
}

}  // namespace

Status rest(const Request& request) {
  const Input& x = request.input;
  const Output& y = request.output;
  switch (request.collective) {
    case Collective::barrier:
      if (request.needs_all) break;
      return {};
    case Collective::neighbor_allreduce:
    case Collective::hierarchical_neighbor_allreduce:
      if (request.needs_all) break;
      if (x.data == y.data) return {};
      if (is_on_gpu(x.data) || is_on_gpu(y.data)) break;
      WEFT_RETURN_IF_ERROR(check_same_count(name(request.collective), x, y));
      std::memcpy(y.data, x.data, bytes_of(x));
      return {};
    default:
      break;
  }
  return Status(Code::peer_died,
                fmt::format("{}: a rank died during the call, which has ended on other ranks; the "
                            "context goes on",
                            name(request.collective)));
}

bool Context::Healing::Call::test() {
  const std::shared_ptr<Healing> healing = healing_.lock();
  if (healing == nullptr) return true;
  Handle handle;
  {
    const Lock lock(healing->mutex_);
    if (is_over) return true;
    if (healing->is_healing_) return false;
    handle = this->handle;
  }
  if (!handle.is_empty() && !handle.test()) return false;
  return healing->go_on(*this);
}

Status Context::Healing::Call::wait() {
  const std::shared_ptr<Healing> healing = healing_.lock();
  if (healing != nullptr) return healing->finish(*this);
  return is_over ? status : Status(Code::closed, "wait: the context of this operation was closed");
}

bool Context::Healing::Call::wait_for(std::int64_t patience_ns) {
  const std::int64_t end_ns = now_ns() + patience_ns;
  while (true) {
    const std::shared_ptr<Healing> healing = healing_.lock();
    if (healing == nullptr) return true;
    Handle handle;
    {
      Lock lock(healing->mutex_);
      if (is_over) return true;
      const auto left = std::chrono::nanoseconds(std::max<std::int64_t>(0, end_ns - now_ns()));
      if (!healing->changed_.wait_for(lock, left, [&] { return !healing->is_healing_; }))
        return false;
      handle = this->handle;
    }
    const std::int64_t left_ns = std::max<std::int64_t>(0, end_ns - now_ns());
    if (!handle.is_empty() && !handle.wait_for(left_ns)) return false;
    if (healing->go_on(*this)) return true;
  }
}

Status Context::Healing::Call::then(std::function<void(const Status&)> call) {
  Handle handle;
  if (const std::shared_ptr<Healing> healing = healing_.lock()) {
    const Lock lock(healing->mutex_);
    if (!is_over) handle = this->handle;
  }
  if (handle.is_empty()) {
    call(wait());  // nothing is left to wait for, or the call could not begin
    return {};
  }
  return handle.then(
      [self = shared_from_this(), call = std::move(call)](const Status&) { call(self->wait()); });
}

void Context::Healing::Call::save() {
  const Input& x = request.get().input;
  is_saved_ = is_in_place(request.get()) && !is_on_gpu(x.data);
  if (!is_saved_) return;
  const auto* from = static_cast<const std::byte*>(x.data);
  saved_.assign(from, from + bytes_of(x));
}

void Context::Healing::Call::restore() const {
  if (is_saved_) std::memcpy(request.get().output.data, saved_.data(), saved_.size());
}

std::string_view Context::Healing::Call::why_not_again() const {
  if (index == kNotCounted) return "a rank died during the call";
  if (request.get().needs_all) return "a rank died during the call, which needs all ranks";
  if (request.get().feedback != nullptr)
    return "a rank died during the call, whose error feedback is used up";
  if (is_in_place(request.get()) && !is_saved_)
    return "a rank died during the call, and the input was overwritten in GPU memory";
  return "";
}

void Context::Healing::Call::finish(Status how) {
  is_over = true;
  status = std::move(how);
  handle = Handle();
  in = nullptr;
  saved_ = {};
}

}  // namespace weft
