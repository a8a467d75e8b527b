// prepared_transfer: see the header.
#include "engine/window/prepared_transfer.h"

#include <string>
#include <utility>

namespace weft::window {

Status PreparedTransfer::check_idle() {
  std::optional<Handle> last = started();
  if (!last || last->test()) return {};
  return Status(Code::invalid_argument,
                std::string(what_) + ": the run that was started last is under way");
}

Status PreparedTransfer::run() {
  WEFT_RETURN_IF_ERROR(check_idle());
  return call_(nullptr);
}

Result<Handle> PreparedTransfer::start() {
  WEFT_RETURN_IF_ERROR(check_idle());
  Handle handle;
  WEFT_RETURN_IF_ERROR(call_(&handle));
  const std::lock_guard lock(mutex_);
  last_ = handle;
  return handle;
}

Result<std::optional<Handle>> PreparedTransfer::run_for(std::int64_t patience_ns) {
  std::optional<Handle> rest;
  if (is_quick_()) {
    WEFT_RETURN_IF_ERROR(run());
    return rest;
  }
  WEFT_ASSIGN(rest, start());
  if (!rest->wait_for(patience_ns)) return rest;
  WEFT_RETURN_IF_ERROR(rest->wait());
  return std::optional<Handle>();
}

std::optional<Handle> PreparedTransfer::started() {
  const std::lock_guard lock(mutex_);
  return last_;
}

}  // namespace weft::window
