// prepared_call: see the header.
#include "engine/context/prepared_call.h"

#include <utility>

#include "engine/context/core.h"

namespace weft {

PreparedCall::PreparedCall(std::shared_ptr<Context::Core> core, const Request& request,
                           std::uint64_t number)
    : core_(std::move(core)), request_(request), number_(number) {}

PreparedCall::~PreparedCall() = default;

Status PreparedCall::run() {
  return core_->run(*this);
}

Result<Handle> PreparedCall::start() {
  return core_->start(*this);
}

Result<std::optional<Handle>> PreparedCall::run_for(std::int64_t patience_ns) {
  return core_->run_for(*this, patience_ns);
}

std::optional<Handle> PreparedCall::started() {
  const std::shared_ptr<Lane> lane = core_->shared_lane();
  const Lane::Hold hold(*lane);
  return last_ == nullptr ? std::nullopt : std::optional(Handle(last_));
}

}  // namespace weft
