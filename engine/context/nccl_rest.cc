// nccl_rest: see the header.
#include "engine/context/nccl_rest.h"

namespace weft {

bool NcclRest::follow_first() {
  if (has_followed_) return true;
  if (!first_->done.load(std::memory_order_acquire)) return false;
  has_followed_ = true;
  status_ = first_->status;
  by_nccl_ = status_.ok() && turn_ != nullptr && turn_->way() == NcclTurn::Way::nccl;
  if (by_nccl_) status_ = stage_->take_turn(nullptr, {});
  return true;
}

bool NcclRest::is_open() {
  const std::lock_guard lock(mutex_);
  if (!follow_first()) return false;
  return !by_nccl_ || !status_.ok() || stage_->is_open();
}

Status NcclRest::gate_status() {
  const std::lock_guard lock(mutex_);
  return by_nccl_ && status_.ok() ? stage_->gate_status() : status_;
}

bool NcclRest::has_begun() {
  const std::lock_guard lock(mutex_);
  return follow_first() && by_nccl_ && status_.ok() && stage_->has_begun();
}

std::size_t NcclRest::there(const std::byte* data, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  return stage_ == nullptr ? bytes : stage_->there(data, bytes);
}

// What the first part has written stays: the stage's own output is not copied over it.
void NcclRest::ended(const Status& status) {
  if (stage_ == nullptr) return;
  const bool has_output = by_nccl_ || !status.ok();
  stage_->ended(has_output ? status : Status(Code::closed, "the first part was the whole"));
}

bool NcclRest::is_over() {
  if (stage_ != nullptr && !stage_->is_over()) return false;
  if (by_nccl_ && output_status().ok()) turn_->ended_as_a_whole();
  return true;
}

void NcclRest::wait_until_over() {
  if (stage_ != nullptr) stage_->wait_until_over();
}

Status NcclRest::output_status() {
  return by_nccl_ ? stage_->output_status() : Status();
}

}  // namespace weft
