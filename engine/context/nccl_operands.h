// nccl_operands: the operands of operations that NCCL may compute in the place of their plans. Internal
// to the module.
//
// All ranks agree on it by a small operation just before. Both take their places in the order of all
// operations at the call; the second one's input waits for the answer:
//
//   Agreement     the maximum of all ranks' votes
//   NcclOperands  by NCCL, and the plan is not needed; or by the plan; or, if the call names NCCL and a
//                 rank cannot, by nothing, and all ranks have the error
//
// A hierarchical_neighbor_allreduce has one operation more, whose handle the caller has:
//
//   NcclOperands  the mean inside the machine by NCCL; or the whole by its plan
//   RestOperands  the rest, by a plan of its own; or nothing
#pragma once

#include <memory>
#include <mutex>

#include "engine/gpu/gpu.h"
#include "engine/nccl/nccl.h"
#include "engine/operation/operation.h"

namespace weft {

// The votes of all ranks on a turn of NCCL, which an operation combines.
struct Agreement {
  struct Votes {
    NcclTurn::Vote given{}, combined{};
  };
  std::shared_ptr<Operation> operation;
  std::shared_ptr<const Votes> votes;  // the operation keeps them, too

  [[nodiscard]] bool is_over() const { return operation->done.load(std::memory_order_acquire); }
  [[nodiscard]] Result<NcclTurn::Vote> answer() const {
    if (!operation->status.ok()) return operation->status;
    return votes->combined;
  }
};

// Operands of which it is not known at the call whether the plan needs them. Several lanes may ask.
class ChosenOperands : public DeviceOperands {
 public:
  State input_state() final;
  Status input_status() final;
  std::size_t there(const std::byte* data, std::size_t bytes) final;
  Reducer* reducer() final { return operands_ == nullptr ? nullptr : operands_->reducer(); }
  bool is_over() override { return operands_ == nullptr || operands_->is_over(); }
  void wait_until_over() override {
    if (operands_ != nullptr) operands_->wait_until_over();
  }

 protected:
  enum class Choice : std::uint8_t { open, plan, other };
  // `operands`: placed, and brought only if the plan is chosen; null: the operands are on the host.
  explicit ChosenOperands(std::shared_ptr<GpuOperands> operands) : operands_(std::move(operands)) {}
  // The choice, once there is one; an error ends the operation.
  virtual Result<Choice> choose() = 0;
  [[nodiscard]] bool is_by_plan() const { return choice_ == Choice::plan; }
  [[nodiscard]] bool is_by_other() const { return choice_ == Choice::other; }

  const std::shared_ptr<GpuOperands> operands_;

 private:
  std::mutex mutex_;
  Choice choice_ = Choice::open;
  Status status_;  // of the choice
};

class NcclOperands final : public ChosenOperands {
 public:
  // `result`: where NCCL writes instead of the operands' output, of a hierarchical operation.
  NcclOperands(std::shared_ptr<GpuOperands> operands, std::shared_ptr<NcclTurn> turn,
               Agreement agreement, void* result)
      : ChosenOperands(std::move(operands)),
        turn_(std::move(turn)),
        agreement_(std::move(agreement)),
        result_(result) {}

  void ended(const Status& status) override;
  bool is_over() override;
  void wait_until_over() override;
  Status output_status() override {
    if (is_by_other() || operands_ == nullptr) return turn_->status();
    return operands_->output_status();
  }

 private:
  Result<Choice> choose() override;

  const std::shared_ptr<NcclTurn> turn_;
  const Agreement agreement_;
  void* const result_;
  bool is_told_ = false;  // the turn that it has ended
};

class RestOperands final : public ChosenOperands {
 public:
  // `first`: the operation before. `turn`: the first one's; null: it does not run by NCCL. `mean`: the
  // input, if there is a turn.
  RestOperands(std::shared_ptr<GpuOperands> operands, std::shared_ptr<Operation> first,
               std::shared_ptr<NcclTurn> turn, DeviceBlock mean)
      : ChosenOperands(std::move(operands)),
        first_(std::move(first)),
        turn_(std::move(turn)),
        mean_(std::move(mean)) {}

  void ended(const Status& status) override;
  bool is_over() override;
  Status output_status() override { return is_by_plan() ? operands_->output_status() : Status(); }

 private:
  Result<Choice> choose() override;

  const std::shared_ptr<Operation> first_;
  const std::shared_ptr<NcclTurn> turn_;
  const DeviceBlock mean_;
};

}  // namespace weft
