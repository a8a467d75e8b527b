// binder: operations between neighbors of the graph, and the functions that all families share.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "engine/context/binder.h"
#include "engine/context/operands.h"

namespace weft {
namespace {

Plan plan_of_neighbors(Collective collective, const View& view, Shape shape) {
  switch (collective) {
    case Collective::neighbor_allreduce:
      return plan_neighbor_allreduce(view, shape);
    case Collective::pair_average:
      return plan_pair_average(view, shape);
    case Collective::send:
      return view.in.empty() ? plan_send(view) : plan_receive(view);
    default:
      return plan_neighbor_allgather(view, shape);
  }
}

}  // namespace

Status Binder::check_algorithm(const Request& request, Bits usual) {
  if (request.algorithm == AllreduceAlgorithm::automatic) return {};
  if (has<kHasAlgorithm>(request.collective))
    return check_bits(request.algorithm, bits_of(request, usual));
  return invalid(fmt::format("{}: has no algorithms, so {} cannot be asked for",
                             name(request.collective), name(request.algorithm)));
}

Status Binder::bind(const Request& request, BoundCall& bound_call) {
  WEFT_RETURN_IF_ERROR(check_algorithm(request, config_.bits));
  WEFT_RETURN_IF_ERROR(bind_operation(request, bound_call));
  bound_call.call.agreement = agreement_of(request, config_.bits);
  bound_call.call.has_common_result = has<kCommonResult>(request.collective);
  if (has_root(request.collective)) bound_call.call.root = request.root;
  bound_call.call.checks_unmatched =
      has_root(request.collective) || request.collective == Collective::barrier;
  return {};
}

Status Binder::bind_operation(const Request& request, BoundCall& bound_call) {
  switch (request.collective) {
    case Collective::neighbor_allreduce:
      return neighbor_allreduce(request, bound_call);
    case Collective::neighbor_allgather:
      return neighbor_allgather(request, bound_call);
    case Collective::allreduce:
      return allreduce(request, bound_call);
    case Collective::broadcast:
      return broadcast(request, bound_call);
    case Collective::barrier:
      return barrier(bound_call);
    case Collective::allgather:
      return allgather(request, bound_call);
    case Collective::reduce_scatter:
      return reduce_scatter(request, bound_call);
    case Collective::reduce:
      return reduce(request, bound_call);
    case Collective::gather:
      return gather(request, bound_call);
    case Collective::scatter:
      return scatter(request, bound_call);
    case Collective::alltoall:
      return alltoall(request, bound_call);
    case Collective::send:
      return request.receives ? recv(request, bound_call) : send(request, bound_call);
    case Collective::pair_average:
      return pair_average(request, bound_call);
    case Collective::group_average:
      return group_average(request, bound_call);
    case Collective::hierarchical_neighbor_allreduce:
      return hierarchical_neighbor_allreduce(request, bound_call);
    case Collective::local_allreduce:
      return local_allreduce(request, bound_call);
  }
  return invalid(
      fmt::format("no operation has the number {}", static_cast<unsigned>(request.collective)));
}

void Binder::use(const CachedPlan& plan, BoundCall& bound_call) {
  bound_call.plan = &plan.plan;
  bound_call.trace_name = plan.trace_name;
  bound_call.call.in = plan.in;
  bound_call.call.out = plan.out;
  bound_call.call.checks_graph = false;  // all ranks take part, so there are no graphs to differ
}

// Gets the plan of a neighbor operation. It depends on the degrees, and on how many in-neighbors
// have a lower rank than this one, because sums are made in rank order.
Status Binder::plan_neighbors(BoundCall& bound_call, Collective collective, bool in_place) {
  const Call& call = bound_call.call;
  PlanKey key;
  key.collective = collective;
  key.in_place = in_place;
  key.in = static_cast<std::uint32_t>(call.in.size());
  key.out = static_cast<std::uint32_t>(call.out.size());
  for (const PeerConnection* connection : call.in)
    key.position += connection->rank < config_.rank ? 1 : 0;
  WEFT_ASSIGN(const CachedPlan* plan, plans_.get(key, [&]() -> Planned {
    View view{config_.rank, config_.size, {}, {}};
    for (const PeerConnection* connection : call.in) view.in.push_back(connection->rank);
    for (const PeerConnection* connection : call.out) view.out.push_back(connection->rank);
    Plan made = plan_of_neighbors(collective, view, Shape{in_place});
    return {std::move(view), std::move(made)};
  }));
  bound_call.plan = &plan->plan;
  bound_call.trace_name = plan->trace_name;
  return {};
}

Status Binder::neighbor_allreduce(const Request& request, BoundCall& bound_call) {
  const Input& x = request.input;
  const Output& y = request.output;
  WEFT_RETURN_IF_ERROR(check_same_count("neighbor_allreduce", x, y));
  WEFT_RETURN_IF_ERROR(check_weighted("neighbor_allreduce", x.type));
  bind_operands(bound_call.call, Collective::neighbor_allreduce, x, y);
  WEFT_RETURN_IF_ERROR(edges_.bind(bound_call, weights_of(request)));
  return plan_neighbors(bound_call, Collective::neighbor_allreduce, is_in_place(x, y));
}

Status Binder::bind_encoded(const Request& moves, const Request& request, BoundCall& bound_call) {
  WEFT_RETURN_IF_ERROR(bind_operation(moves, bound_call));
  bound_call.call.collective = request.collective;
  bound_call.call.agreement = agreement_of(request, config_.bits);
  bound_call.call.is_encoded = true;
  return {};
}

Status Binder::bind_encoded_neighbors(const Request& request, std::size_t bytes,
                                      BoundCall& bound_call, std::vector<Term>& weights) {
  Call& call = bound_call.call;
  WEFT_RETURN_IF_ERROR(edges_.bind(bound_call, weights_of(request)));
  weights.push_back({nullptr, call.self_weight});
  for (const double weight : call.receive_weights) weights.push_back({nullptr, weight});
  call.receive_weights = call.send_weights = {};
  call.self_weight = 1.0;
  bind_operands(call, Collective::neighbor_allreduce, {nullptr, bytes, DataType::u8},
                {nullptr, bytes * call.in.size(), DataType::u8});
  WEFT_RETURN_IF_ERROR(
      lay_out("neighbor_allreduce", bound_call.given, DataType::u8, call.in.size(), {}, bytes));
  call.given = bound_call.given;
  call.agreement = agreement_of(request, config_.bits);
  call.is_encoded = true;
  return plan_neighbors(bound_call, Collective::neighbor_allgather, false);
}

Status Binder::neighbor_allgather(const Request& request, BoundCall& bound_call) {
  const Input& x = request.input;
  const Output& y = request.output;
  const std::span<const std::size_t> counts = request.counts;
  WEFT_RETURN_IF_ERROR(check_memory("neighbor_allgather", x, y));
  if (is_in_place(x, y))
    return invalid("neighbor_allgather: input and output must not be the same memory");
  bind_operands(bound_call.call, Collective::neighbor_allgather, x, y);
  WEFT_RETURN_IF_ERROR(edges_.bind(bound_call));
  const std::size_t degree = bound_call.call.in.size();
  if (!counts.empty() && counts.size() != degree) {
    return invalid(
        fmt::format("neighbor_allgather: {} counts for {} in-neighbors", counts.size(), degree));
  }
  WEFT_RETURN_IF_ERROR(
      lay_out("neighbor_allgather", bound_call.given, x.type, degree, counts, x.count));
  const std::size_t all = bound_call.given.empty() ? 0 : end_of(bound_call.given);
  if (all != y.count) {
    return invalid(
        fmt::format("neighbor_allgather: the in-neighbors' parts have {} elements, the output {}",
                    all, y.count));
  }
  bound_call.call.given = bound_call.given;
  return plan_neighbors(bound_call, Collective::neighbor_allgather, false);
}

}  // namespace weft
