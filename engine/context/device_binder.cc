// device_binder: see the header.
#include "engine/context/device_binder.h"

#include <utility>

namespace weft {

GpuOperandOptions DeviceBinder::gpu_options() const {
  GpuOperandOptions options;
  options.reduce = config_.gpu_reduce;
  options.shares = config_.gpu_ipc;
  options.lends = config_.gpu_rdma;
  options.deadline_ms = config_.deadline_ms;
  return options;
}

Status DeviceBinder::bind(const Request& request, Operation& operation, const How& how) {
  const bool names_nccl = request.algorithm == AllreduceAlgorithm::nccl;
  if (!names_nccl && !request.stream && !may_have_gpu_memory())
    return binder_.bind(request, operation.bound_call);
  std::optional<NcclJob> job;
  if (how.by_nccl || names_nccl) {
    WEFT_ASSIGN(job, nccl_.job_of(request));
  }
  GpuOperandOptions options = gpu_options();
  options.is_there = how.is_there;
  if (job && job->collective == Collective::hierarchical_neighbor_allreduce)
    return bind_hierarchical(request, *job, operation, options);
  WEFT_ASSIGN(std::shared_ptr<GpuOperands> operands,
              place(request, &Binder::bind, options, operation));
  if (job) {
    std::shared_ptr<NcclTurn> turn = line_up(*job, operands.get());
    WEFT_RETURN_IF_ERROR(bind_by_nccl(*job, operands, std::move(turn), nullptr, operation));
  } else if (operands != nullptr) {
    WEFT_RETURN_IF_ERROR(operands->bring());
    set_operands(operation, operands);
  }
  return operands == nullptr ? Status() : operands->hold();
}

// The mean goes to memory of its own, from which the second operation reads. The stream is held until
// that has ended.
Status DeviceBinder::bind_hierarchical(const Request& request, const NcclJob& job,
                                       Operation& operation, GpuOperandOptions options) {
  const std::shared_ptr<Operation> first = operations_.make();
  options.holds = HoldsStream::no;
  WEFT_ASSIGN(std::shared_ptr<GpuOperands> operands,
              place(request, &Binder::bind, options, *first));
  const std::shared_ptr<NcclTurn> turn = line_up(job, operands.get());
  Request rest = request;
  DeviceBlock mean;
  if (turn != nullptr) {
    WEFT_ASSIGN(mean, DeviceBlock::take(job.bytes(), operands->on_one_gpu()->gpu));
    rest.input.data = mean.data();
  }
  void* const result = mean.data();
  options.holds = HoldsStream::yes;
  WEFT_ASSIGN(const std::shared_ptr<GpuOperands> behind,
              place(rest, &Binder::bind_behind_mean, options, operation));
  set_operands(operation, std::make_shared<RestOperands>(behind, first, turn, std::move(mean)));
  WEFT_RETURN_IF_ERROR(bind_by_nccl(job, std::move(operands), turn, result, *first));
  if (behind != nullptr) WEFT_RETURN_IF_ERROR(behind->hold());
  return operations_.admit(first);
}

Result<std::shared_ptr<GpuOperands>> DeviceBinder::place(Request request, Bind bind,
                                                         const GpuOperandOptions& options,
                                                         Operation& operation) {
  WEFT_ASSIGN(std::shared_ptr<GpuOperands> operands,
              find_gpu_operands({&request, 1}, config_.rank, options, bell_));
  WEFT_RETURN_IF_ERROR((binder_.*bind)(request, operation.bound_call));
  if (operands == nullptr) return operands;
  Call& call = operation.bound_call.call;
  WEFT_RETURN_IF_ERROR(operands->follow());
  if (operation.bound_call.plan->steps.empty()) return operands;
  WEFT_RETURN_IF_ERROR(operands->place({&request, 1}, call.in, call.out));
  call.input = request.input.data;
  call.output = request.output.data;
  return operands;
}

void DeviceBinder::set_operands(Operation& operation, std::shared_ptr<DeviceOperands> operands) {
  Call& call = operation.bound_call.call;
  call.gate = operands.get();
  call.reducer = operands->reducer();
  operation.operands = std::move(operands);
}

std::shared_ptr<NcclTurn> DeviceBinder::line_up(const NcclJob& job, const GpuOperands* operands) {
  std::optional<GpuOperands::OnGpu> on_gpu;
  if (operands != nullptr) on_gpu = operands->on_one_gpu();
  std::optional<GpuMemory> gpu;
  if (on_gpu) gpu = on_gpu->gpu;
  return nccl_.group().line_up(job, gpu, [bell = bell_] { bell->ring(); });
}

// The operation that combines the votes comes before the one that they are about, so that this one keeps
// its place in the order.
Result<Agreement> DeviceBinder::agree(const NcclJob& job, const NcclTurn* turn) {
  const auto votes = std::make_shared<Agreement::Votes>();
  votes->given = turn == nullptr ? NcclGroup::no(job) : turn->vote();
  constexpr std::size_t kWords = std::tuple_size_v<NcclTurn::Vote>;
  const bool is_of_machine = job.collective == Collective::local_allreduce;
  Request request{.collective = is_of_machine ? job.collective : Collective::allreduce,
                  .input = {votes->given.data(), kWords, DataType::i64},
                  .output = {votes->combined.data(), kWords, DataType::i64},
                  .op = ReduceOp::max};
  const Agreement made{operations_.make(), votes};
  made.operation->keeps = votes;
  WEFT_RETURN_IF_ERROR(binder_.bind(request, made.operation->bound_call));
  if (job.is_asked) {  // ranks that name another algorithm are found here
    request.algorithm = AllreduceAlgorithm::nccl;
    made.operation->bound_call.call.agreement = agreement_of(request, config_.bits);
  }
  WEFT_RETURN_IF_ERROR(operations_.admit(made.operation));
  return made;
}

// A rank without a turn votes as well, and knows the answer.
Status DeviceBinder::bind_by_nccl(const NcclJob& job, std::shared_ptr<GpuOperands> operands,
                                  std::shared_ptr<NcclTurn> turn, void* result,
                                  Operation& operation) {
  WEFT_ASSIGN(Agreement agreement, agree(job, turn.get()));
  operation.keeps = agreement.votes;
  if (turn == nullptr) {
    if (operands == nullptr) return {};
    WEFT_RETURN_IF_ERROR(operands->bring());
    set_operands(operation, std::move(operands));
    return {};
  }
  std::optional<GpuOperands::OnGpu> on_gpu;
  if (operands != nullptr) on_gpu = operands->on_one_gpu();
  if (on_gpu && on_gpu->stream) WEFT_RETURN_IF_ERROR(turn->follow(*on_gpu->stream));
  set_operands(operation, std::make_shared<NcclOperands>(std::move(operands), std::move(turn),
                                                         std::move(agreement), result));
  return {};
}

}  // namespace weft
