// nccl_operands: what the choices are, and how they end.
#include "engine/context/nccl_operands.h"

namespace weft {

InputGate::State ChosenOperands::input_state() {
  const std::lock_guard lock(mutex_);
  if (choice_ == Choice::open && status_.ok()) {
    const Result<Choice> choice = choose();
    if (choice.ok()) choice_ = *choice;
    status_ = choice.status();
    if (is_by_plan() && operands_ != nullptr) status_ = operands_->bring();
  }
  if (!status_.ok()) return State::arrived;
  switch (choice_) {
    case Choice::open:
      return State::awaited;
    case Choice::plan:
      return operands_ == nullptr ? State::arrived : operands_->input_state();
    case Choice::other:
      return State::unneeded;
  }
  return State::awaited;
}

Status ChosenOperands::input_status() {
  const std::lock_guard lock(mutex_);
  return status_.ok() && is_by_plan() && operands_ != nullptr ? operands_->input_status() : status_;
}

std::size_t ChosenOperands::there(const std::byte* data, std::size_t bytes) {
  return operands_ == nullptr ? bytes : operands_->there(data, bytes);
}

Result<ChosenOperands::Choice> NcclOperands::choose() {
  if (!agreement_.is_over()) return Choice::open;
  turn_->count(agreement_.answer());
  switch (turn_->way()) {
    case NcclTurn::Way::undecided:
      return Choice::open;
    case NcclTurn::Way::weft:
      return Choice::plan;
    case NcclTurn::Way::refused:
      return Choice::other;
    case NcclTurn::Way::failed:
      return turn_->status();
    case NcclTurn::Way::nccl:
      break;
  }
  const std::optional<GpuOperands::OnGpu> on_gpu = operands_->on_one_gpu();
  WEFT_RETURN_IF_ERROR(turn_->begin(on_gpu->x, result_ != nullptr ? result_ : on_gpu->y));
  return Choice::other;
}

void NcclOperands::ended(const Status& status) {
  if (!is_by_other() && operands_ != nullptr) return operands_->ended(status);
  if (is_by_other() && !status.ok()) turn_->give_up(status);
  (void)is_over();  // what waits for the output may go on at once
}

bool NcclOperands::is_over() {
  const bool is_by_nccl = is_by_other();
  if (is_by_nccl ? !turn_->is_over() : !ChosenOperands::is_over()) return false;
  const bool is_whole = !is_by_nccl || result_ == nullptr;
  if (!std::exchange(is_told_, true) && is_whole && output_status().ok() && input_status().ok())
    turn_->ended();
  if (operands_ != nullptr) operands_->let_go();
  return true;
}

void NcclOperands::wait_until_over() {
  if (is_by_other()) turn_->give_up(Status(Code::closed, "the lane has ended"));
  ChosenOperands::wait_until_over();
}

Result<ChosenOperands::Choice> RestOperands::choose() {
  if (!first_->done.load(std::memory_order_acquire)) return Choice::open;
  WEFT_RETURN_IF_ERROR(first_->status);
  const bool is_mean = turn_ != nullptr && turn_->way() == NcclTurn::Way::nccl;
  return is_mean ? Choice::plan : Choice::other;
}

// What the first operation has written stays: their own output is not copied over it.
void RestOperands::ended(const Status& status) {
  if (operands_ == nullptr) return;
  const bool has_output = is_by_plan() || !status.ok();
  operands_->ended(has_output ? status : Status(Code::closed, "the first operation was the whole"));
}

bool RestOperands::is_over() {
  if (!ChosenOperands::is_over()) return false;
  if (is_by_plan() && output_status().ok()) turn_->ended();
  return true;
}

}  // namespace weft
