// prepared: the public face.
#include "engine/operation/prepared.h"

#include <string>
#include <utility>

#include "verbs/base/base.h"

namespace weft {
namespace {

Status check(const std::shared_ptr<PreparedOperation>& operation, const char* what) {
  if (operation == nullptr)
    return Status(Code::invalid_argument, std::string(what) + ": nothing was prepared");
  return is_forked_child() ? forked_child_error(what) : Status();
}

}  // namespace

Prepared::Prepared(std::shared_ptr<PreparedOperation> operation)
    : operation_(std::move(operation)) {}

Status Prepared::run() {
  WEFT_RETURN_IF_ERROR(check(operation_, "run"));
  return operation_->run();
}

Result<Handle> Prepared::start() {
  WEFT_RETURN_IF_ERROR(check(operation_, "start"));
  return operation_->start();
}

Status Prepared::wait() {
  WEFT_RETURN_IF_ERROR(check(operation_, "wait"));
  std::optional<Handle> started = operation_->started();
  return started ? started->wait() : Status();
}

Result<std::optional<Handle>> Prepared::run_for(std::int64_t patience_ns) {
  WEFT_RETURN_IF_ERROR(check(operation_, "run_for"));
  return operation_->run_for(patience_ns);
}

}  // namespace weft
