// binder: reductions and broadcasts of all ranks, and the barrier.
#include <fmt/core.h>

#include "engine/context/binder.h"
#include "engine/context/operands.h"

namespace weft {
namespace {

Reduction reduction_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return Reduction::sum;
    case ReduceOp::average:
      return Reduction::weighted_sum;
    case ReduceOp::min:
      return Reduction::min;
    case ReduceOp::max:
      return Reduction::max;
    case ReduceOp::product:
      return Reduction::product;
    case ReduceOp::bit_and:
      return Reduction::bit_and;
    case ReduceOp::bit_or:
      return Reduction::bit_or;
    case ReduceOp::bit_xor:
      return Reduction::bit_xor;
  }
  return Reduction::sum;
}

Status check_operator(std::string_view what, DataType type, ReduceOp op) {
  if (op == ReduceOp::average && !is_floating(type)) {
    return invalid(fmt::format("{}: the average of {} has no meaning; use sum, or a floating type",
                               what, name(type)));
  }
  return check_reduction(type, reduction_of(op));
}

}  // namespace

// An average is a weighted sum, divided.
Status Binder::bind_reduction(std::string_view what, Call& call, DataType type, ReduceOp op,
                              int ranks) {
  WEFT_RETURN_IF_ERROR(check_operator(what, type, op));
  call.reduction = reduction_of(op);
  const Mean mean = op == ReduceOp::average ? mean_of(static_cast<std::size_t>(ranks)) : Mean();
  call.scale = mean.weight;
  call.divisor = mean.divisor;
  return {};
}

Status Binder::check_allreduce_operands(const Request& request) {
  WEFT_RETURN_IF_ERROR(check_same_count("allreduce", request.input, request.output));
  return check_operator("allreduce", request.input.type, request.op);
}

Status Binder::check_root(std::string_view what, Rank root) const {
  if (root >= 0 && root < config_.size) return {};
  return invalid(
      fmt::format("{}: the root {} is not one of the ranks 0…{}", what, root, config_.size - 1));
}

Status Binder::allreduce(const Request& request, BoundCall& bound_call) {
  const Input& x = request.input;
  const Output& y = request.output;
  WEFT_RETURN_IF_ERROR(check_same_count("allreduce", x, y));
  bind_operands(bound_call.call, Collective::allreduce, x, y);
  WEFT_RETURN_IF_ERROR(
      bind_reduction("allreduce", bound_call.call, x.type, request.op, config_.size));
  const Bits bits = bits_of(request, config_.bits);
  WEFT_ASSIGN(const Choice choice, choose(request.algorithm, bits, x.count * size_of(x.type)));
  PlanKey key;
  key.collective = Collective::allreduce;
  key.algorithm = static_cast<std::uint8_t>(choice.algorithm);
  key.bits = bits;
  key.is_narrow = bits == Bits::fixed && is_floating(x.type) && size_of(x.type) < sizeof(float);
  key.in_place = is_in_place(x, y);
  key.bytes = x.count * size_of(x.type);
  key.left = machines_.left_number();
  return plan_everybody(bound_call, key, [&] {
    return plan_allreduce(config_.rank, config_.size, key.bytes, Shape{key.in_place, key.is_narrow},
                          choice.algorithm, *choice.layout, bits);
  });
}

// A request that names no algorithm takes that of WEFT_ALLREDUCE, where fixed bits allow it.
Result<Binder::Choice> Binder::choose(AllreduceAlgorithm asked, Bits bits, std::size_t bytes) {
  WEFT_RETURN_IF_ERROR(allreduce_table_.status());
  const bool is_asked = asked != AllreduceAlgorithm::automatic || bits == Bits::fixed;
  const AllreduceAlgorithm algorithm = is_asked ? asked : allreduce_table_->at(bytes);
  WEFT_ASSIGN(const Layout* layout, machines_.layout_for(algorithm));
  WEFT_RETURN_IF_ERROR(check_allreduce(algorithm, config_.size, *layout));
  return Choice{algorithm, layout};
}

Status Binder::check_choice(AllreduceAlgorithm asked, Bits bits, std::size_t bytes) {
  return chooses(asked, bytes) ? Status() : choose(asked, bits, bytes).status();
}

Status Binder::reduce(const Request& request, BoundCall& bound_call) {
  const Input& x = request.input;
  const Rank root = request.root;
  WEFT_RETURN_IF_ERROR(check_root("reduce", root));
  const Output y = root == config_.rank ? request.output : Output{nullptr, 0, x.type};
  WEFT_RETURN_IF_ERROR(root == config_.rank ? check_same_count("reduce", x, y)
                                            : check_memory("reduce", x, y));
  bind_operands(bound_call.call, Collective::reduce, x, y);
  WEFT_RETURN_IF_ERROR(bind_reduction("reduce", bound_call.call, x.type, request.op, config_.size));
  PlanKey key;
  key.collective = Collective::reduce;
  key.bits = bits_of(request, config_.bits);
  key.in_place = is_in_place(x, y);
  key.root = root;
  key.bytes = x.count * size_of(x.type);
  return plan_everybody(bound_call, key, [&] {
    return plan_reduce(config_.rank, config_.size, root, key.bytes, Shape{key.in_place}, key.bits);
  });
}

Status Binder::broadcast(const Request& request, BoundCall& bound_call) {
  const Output& y = request.output;
  const Rank root = request.root;
  WEFT_RETURN_IF_ERROR(check_root("broadcast", root));
  const bool is_root = root == config_.rank;
  const Input x = is_root ? request.input : Input{nullptr, y.count, y.type};
  WEFT_RETURN_IF_ERROR(is_root ? check_same_count("broadcast", x, y)
                               : check_memory("broadcast", {nullptr, 0, y.type}, y));
  bind_operands(bound_call.call, Collective::broadcast, x, y);
  PlanKey key;
  key.collective = Collective::broadcast;
  key.in_place = is_root && is_in_place(x, y);
  key.root = root;
  key.bytes = y.count * size_of(y.type);
  return plan_everybody(bound_call, key, [&] {
    return plan_broadcast(config_.rank, config_.size, root, key.bytes, Shape{key.in_place});
  });
}

Status Binder::barrier(BoundCall& bound_call) {
  bind_operands(bound_call.call, Collective::barrier, {}, {});
  PlanKey key;
  key.collective = Collective::barrier;
  return plan_everybody(bound_call, key, [&] { return plan_barrier(config_.rank, config_.size); });
}

}  // namespace weft
