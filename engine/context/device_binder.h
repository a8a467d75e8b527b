// device_binder: binds operations whose operands may be GPU memory (engine/gpu), and those that NCCL may
// compute (nccl_operands). Internal to the module.
#pragma once

#include <functional>
#include <memory>

#include "engine/config/config.h"
#include "engine/context/binder.h"
#include "engine/context/nccl_jobs.h"
#include "engine/context/nccl_operands.h"
#include "engine/gpu/gpu.h"
#include "engine/operation/operation.h"

namespace weft {

// Belongs to the holder of the lane's token.
class DeviceBinder {
 public:
  struct Operations {
    std::function<std::shared_ptr<Operation>()> make;
    std::function<Status(const std::shared_ptr<Operation>&)> admit;
  };
  DeviceBinder(const Config& config, Binder& binder, NcclJobs& nccl, std::shared_ptr<GpuBell> bell,
               Operations operations)
      : config_(config),
        binder_(binder),
        nccl_(nccl),
        bell_(std::move(bell)),
        operations_(std::move(operations)) {}

  struct How {
    bool by_nccl = true;    // if all ranks can; all say so, or none
    bool is_there = false;  // the operands can be used at once
  };
  // Binds the request, and admits the operations that come before it.
  [[nodiscard]] Status bind(const Request& request, Operation& operation, const How& how);
  [[nodiscard]] GpuOperandOptions gpu_options() const;

 private:
  using Bind = Status (Binder::*)(const Request& request, BoundCall& bound_call);
  // Binds the request with what takes the place of its GPU memory. Null: none of it is.
  [[nodiscard]] Result<std::shared_ptr<GpuOperands>> place(Request request, Bind bind,
                                                           const GpuOperandOptions& options,
                                                           Operation& operation);
  static void set_operands(Operation& operation, std::shared_ptr<DeviceOperands> operands);
  [[nodiscard]] std::shared_ptr<NcclTurn> line_up(const NcclJob& job, const GpuOperands* operands);
  [[nodiscard]] Result<Agreement> agree(const NcclJob& job, const NcclTurn* turn);
  [[nodiscard]] Status bind_by_nccl(const NcclJob& job, std::shared_ptr<GpuOperands> operands,
                                    std::shared_ptr<NcclTurn> turn, void* result,
                                    Operation& operation);
  [[nodiscard]] Status bind_hierarchical(const Request& request, const NcclJob& job,
                                         Operation& operation, GpuOperandOptions options);

  const Config& config_;
  Binder& binder_;
  NcclJobs& nccl_;
  const std::shared_ptr<GpuBell> bell_;
  const Operations operations_;
};

}  // namespace weft
