// nccl_rest: the second part of an operation whose first part NCCL may compute. Internal to the module.
//
//   first    the whole operation, by its plan; or, if the votes say so, NCCL: the machine's mean
//   second   begins when the first has ended: the rest, by a plan of its own; or nothing
//
// Both take their places in the order of all operations at the call. The caller's handle is that of the
// second.
#pragma once

#include <memory>
#include <mutex>

#include "engine/gpu/gpu.h"
#include "engine/lane/lane.h"
#include "engine/nccl/nccl.h"

namespace weft {

class NcclRest final : public DeviceOperands {
 public:
  // `turn`: of the first; null: it does not run by NCCL. `stage`: of the second, begun; null: its operands
  // are on the host. `mean`: its input, if there is a turn.
  NcclRest(std::shared_ptr<Operation> first, std::shared_ptr<NcclTurn> turn,
           std::shared_ptr<GpuStage> stage, DeviceBlock mean)
      : first_(std::move(first)),
        turn_(std::move(turn)),
        stage_(std::move(stage)),
        mean_(std::move(mean)) {}

  Combiner* combiner() override { return stage_ == nullptr ? nullptr : stage_->combiner(); }
  bool is_open() override;
  Status gate_status() override;
  bool is_skipped() override { return !by_nccl_; }
  bool has_begun() override;
  std::size_t there(const std::byte* data, std::size_t bytes) override;
  void ended(const Status& status) override;
  bool is_over() override;
  void wait_until_over() override;
  Status output_status() override;

 private:
  // The mutex is held. Whether the first part has ended.
  bool follow_first();

  const std::shared_ptr<Operation> first_;
  const std::shared_ptr<NcclTurn> turn_;
  const std::shared_ptr<GpuStage> stage_;
  const DeviceBlock mean_;
  std::mutex mutex_;
  bool has_followed_ = false;
  bool by_nccl_ = false;
  Status status_;  // of the first, and of beginning the second
};

}  // namespace weft
