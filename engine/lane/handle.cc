// handle: waiting for what was started.
#include <weft/handle.h>

#include <utility>

#include "engine/lane/lane.h"
#include "verbs/base/base.h"

namespace weft {

Handle::Handle(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}

bool Handle::test() {
  if (is_forked_child()) return true;
  if (operation_ == nullptr || operation_->done.load(std::memory_order_acquire)) return true;
  if (operation_->outcome != nullptr) return operation_->outcome->test();
  const auto lane = operation_->lane.lock();
  return lane == nullptr || lane->test(*operation_);
}

Status Handle::wait() {
  if (operation_ == nullptr) return Status(Code::invalid_argument, "wait: the handle is empty");
  if (is_forked_child()) return forked_child_error("wait");
  if (operation_->done.load(std::memory_order_acquire)) return operation_->status;
  if (operation_->outcome != nullptr) return operation_->outcome->wait();
  const auto lane = operation_->lane.lock();
  if (lane != nullptr && lane->wait_until_ns(*operation_)) return operation_->status;
  return Status(Code::closed, "wait: the context of this operation was closed");
}

bool Handle::wait_for(std::int64_t patience_ns) {
  if (is_forked_child()) return true;
  if (operation_ == nullptr || operation_->done.load(std::memory_order_acquire)) return true;
  if (operation_->outcome != nullptr) return operation_->outcome->wait_for(patience_ns);
  const auto lane = operation_->lane.lock();
  return lane == nullptr || lane->wait_until_ns(*operation_, now_ns() + patience_ns);
}

Status Handle::then(std::function<void(const Status&)> call) {
  if (operation_ == nullptr) return Status(Code::invalid_argument, "then: the handle is empty");
  if (is_forked_child()) return forked_child_error("then");
  if (operation_->outcome != nullptr) return operation_->outcome->then(std::move(call));
  if (const auto lane = operation_->lane.lock()) return lane->then(operation_, std::move(call));
  call(wait());  // nothing is left to wait for
  return {};
}

}  // namespace weft
