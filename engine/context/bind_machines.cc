// binder: operations that know machines: averages between machines, reductions inside them.
#include <fmt/core.h>

#include <utility>

#include "engine/context/binder.h"
#include "engine/context/operands.h"

namespace weft {

// The neighbors are machines, and so the edges and weights of a call are those of machines. For
// each edge, the plan says which ranks send and receive; each of these uses the weight of the edge
// between the machines.
Status Binder::hierarchical_neighbor_allreduce(const Request& request, BoundCall& bound_call,
                                               MeanInput input) {
  constexpr std::string_view kName = "hierarchical_neighbor_allreduce";
  const Input& x = request.input;
  const Output& y = request.output;
  WEFT_RETURN_IF_ERROR(check_same_count(kName, x, y));
  WEFT_RETURN_IF_ERROR(check_weighted(kName, x.type));
  WEFT_ASSIGN(const Machines* all, machines_.get());
  WEFT_RETURN_IF_ERROR(machines_.hierarchical());
  const Layout& layout = all->layout;
  const int own = layout.machine_of(config_.rank);
  WEFT_ASSIGN(const MachineGraph::Step* step,
              machine_graph_.bind(kName, weights_of(request), own, all->count()));
  Call& call = bound_call.call;
  bind_operands(call, Collective::hierarchical_neighbor_allreduce, x, y);
  WEFT_RETURN_IF_ERROR(bind_reduction(kName, call, x.type, ReduceOp::average,
                                      static_cast<int>(all->ranks_beside(config_.rank).size())));
  call.self_weight = step->self;
  PlanKey key;
  key.collective = Collective::hierarchical_neighbor_allreduce;
  key.in_place = is_in_place(x, y);
  key.has_mean = input == MeanInput::of_machine;
  key.position = machine_graph_.number_of_step();
  WEFT_RETURN_IF_ERROR(plan_everybody(bound_call, key, [&] {
    View view{own, all->count(), {}, {}};
    for (const NeighborWeight& edge : step->in) view.in.push_back(edge.rank);
    for (const NeighborWeight& edge : step->out) view.out.push_back(edge.rank);
    return plan_hierarchical_neighbor_allreduce(config_.rank, layout, view, Shape{key.in_place},
                                                input);
  }));
  call.checks_graph = true;  // credits check the machine graph
  MachineGraph::weigh_edges(call.in, step->in, layout, own, bound_call.receive_weights);
  MachineGraph::weigh_edges(call.out, step->out, layout, own, bound_call.send_weights);
  call.receive_weights = bound_call.receive_weights;
  call.send_weights = bound_call.send_weights;
  return {};
}

Status Binder::bind_behind_mean(const Request& request, BoundCall& bound_call) {
  WEFT_RETURN_IF_ERROR(hierarchical_neighbor_allreduce(request, bound_call, MeanInput::of_machine));
  bound_call.call.agreement = agreement_of(request, config_.bits);
  return {};
}

// An allreduce among the ranks of each machine. Ranks of other machines play no part in it.
Status Binder::local_allreduce(const Request& request, BoundCall& bound_call) {
  const Input& x = request.input;
  const Output& y = request.output;
  WEFT_RETURN_IF_ERROR(check_same_count("local_allreduce", x, y));
  WEFT_ASSIGN(const Machines* all, machines_.get());
  const std::vector<Rank>& beside = all->ranks_beside(config_.rank);
  const auto size = static_cast<int>(beside.size());
  bind_operands(bound_call.call, Collective::local_allreduce, x, y);
  WEFT_RETURN_IF_ERROR(
      bind_reduction("local_allreduce", bound_call.call, x.type, request.op, size));
  PlanKey key;
  key.collective = Collective::local_allreduce;
  key.bits = bits_of(request, config_.bits);
  key.in_place = is_in_place(x, y);
  key.bytes = x.count * size_of(x.type);
  return plan_everybody(bound_call, key, [&] {
    Planned planned =
        plan_allreduce(all->place_of(config_.rank), size, key.bytes, Shape{key.in_place},
                       AllreduceAlgorithm::automatic, {}, key.bits);
    planned.plan.operation = "local_allreduce";
    for (Rank& place : planned.view.in) place = beside[static_cast<std::size_t>(place)];
    for (Rank& place : planned.view.out) place = beside[static_cast<std::size_t>(place)];
    return planned;
  });
}

}  // namespace weft
