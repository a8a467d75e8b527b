// feedback: residuals, and their use.
#include <fmt/core.h>
#include <weft/feedback.h>

#include <memory>
#include <utility>

#include "engine/compress/compress.h"

namespace weft {
namespace {

Status under_way(std::string_view what) {
  return Status(Code::invalid_argument,
                fmt::format("{}: an operation that uses this error feedback is under way", what));
}

}  // namespace

ErrorFeedback::ErrorFeedback() : residual_(std::make_shared<Residual>()) {}

Result<std::vector<float>> ErrorFeedback::residual() const {
  const std::lock_guard lock(residual_->mutex);
  if (residual_->is_in_use) return under_way("residual");
  return residual_->values;
}

Status ErrorFeedback::clear() {
  const std::lock_guard lock(residual_->mutex);
  if (residual_->is_in_use) return under_way("clear");
  residual_->values.clear();
  return {};
}

Result<ResidualUse> ResidualUse::begin(const ErrorFeedback* feedback, std::string_view what,
                                       std::size_t count) {
  ResidualUse use;
  if (feedback == nullptr) return use;
  const std::shared_ptr<Residual>& residual = feedback->shared();
  const std::lock_guard lock(residual->mutex);
  if (residual->is_in_use) return under_way(what);
  if (!residual->values.empty() && residual->values.size() != count) {
    return Status(
        Code::invalid_argument,
        fmt::format("{}: this error feedback belongs to a tensor of {} elements, and this one "
                    "has {}; clear() begins anew",
                    what, residual->values.size(), count));
  }
  residual->values.resize(count);
  residual->is_in_use = true;
  use.residual_ = residual;
  return use;
}

ResidualUse& ResidualUse::operator=(ResidualUse&& other) noexcept {
  end();
  residual_ = std::move(other.residual_);
  return *this;
}

std::span<float> ResidualUse::values() const {
  return residual_ == nullptr ? std::span<float>() : residual_->values;
}

void ResidualUse::end() {
  // The mutex lives in the residual, of which this may be the last owner.
  const std::shared_ptr<Residual> residual = std::move(residual_);
  if (residual == nullptr) return;
  const std::lock_guard lock(residual->mutex);
  residual->is_in_use = false;
}

}  // namespace weft
