// prepared: the public face.
#include "engine/operation/prepared.h"

#include <string>
#include <utility>

#include "verbs/base/base.h"

namespace weft {
namespace {

// A run of a few bytes takes 40 ns, so what can go wrong is told elsewhere.
bool is_usable(const std::shared_ptr<PreparedOperation>& operation) {
  return operation != nullptr && !is_forked_child();
}

Status why_not(const std::shared_ptr<PreparedOperation>& operation, const char* what) {
  if (operation == nullptr)
    return Status(Code::invalid_argument, std::string(what) + ": nothing was prepared");
  return forked_child_error(what);
}

}  // namespace

Prepared::Prepared(std::shared_ptr<PreparedOperation> operation)
    : operation_(std::move(operation)) {}

Status Prepared::run() {
  if (!is_usable(operation_)) return why_not(operation_, "run");
  return operation_->run();
}

Result<Handle> Prepared::start() {
  if (!is_usable(operation_)) return why_not(operation_, "start");
  return operation_->start();
}

Status Prepared::wait() {
  if (!is_usable(operation_)) return why_not(operation_, "wait");
  std::optional<Handle> started = operation_->started();
  return started ? started->wait() : Status();
}

Result<std::optional<Handle>> Prepared::run_for(std::int64_t patience_ns) {
  if (!is_usable(operation_)) return why_not(operation_, "run_for");
  return operation_->run_for(patience_ns);
}

}  // namespace weft
