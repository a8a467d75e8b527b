// hierarchical_neighbor_allreduce: the machines are the neighbors. Edges and weights of a call are
// those of machines; the plan says which ranks stand for an edge, and each of them has its
// machine's weight.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "engine/context/operands.h"

namespace weft {
namespace {

constexpr std::string_view kName = "hierarchical_neighbor_allreduce";

Status check_machine_weight(std::string_view list, const NeighborWeight& each) {
  if (std::isfinite(each.weight)) return {};
  return invalid(
      fmt::format("{}: the weight of machine {} in {} is {}", kName, each.rank, list, each.weight));
}

Status named_twice(std::string_view list, Rank machine) {
  return invalid(fmt::format("{}: {} names machine {} twice", kName, list, machine));
}

// The graph's edges that are named get their weights; those that are not are not used.
Status name_some(std::string_view list, std::span<const NeighborWeight> named,
                 std::vector<NeighborWeight>& edges, Rank own) {
  for (NeighborWeight& edge : edges) edge.weight = kUnused;
  for (const NeighborWeight& each : named) {
    WEFT_RETURN_IF_ERROR(check_machine_weight(list, each));
    const auto found = std::ranges::lower_bound(edges, each.rank, {}, &NeighborWeight::rank);
    if (found == edges.end() || found->rank != each.rank) {
      return invalid(
          fmt::format("{}: {} names machine {}, with which machine {} has no such edge "
                      "in the graph of machines",
                      kName, list, each.rank, own));
    }
    if (!is_unused(found->weight)) return named_twice(list, each.rank);
    found->weight = each.weight + 0.0;  // a weight of -0.0 means 0, not kUnused
  }
  return {};
}

// Edges of this call alone.
Status name_all(std::string_view list, std::span<const NeighborWeight> named,
                std::vector<NeighborWeight>& edges, Rank own, int machines) {
  edges.assign(named.begin(), named.end());
  std::ranges::sort(edges, {}, &NeighborWeight::rank);
  Rank previous = kNoRank;
  for (NeighborWeight& edge : edges) {
    WEFT_RETURN_IF_ERROR(check_machine_weight(list, edge));
    if (edge.rank < 0 || edge.rank >= machines || edge.rank == own) {
      return invalid(fmt::format("{}: {} names machine {}; it must be another of the machines 0…{}",
                                 kName, list, edge.rank, machines - 1));
    }
    if (edge.rank == previous) return named_twice(list, edge.rank);
    previous = edge.rank;
    edge.weight += 0.0;
  }
  return {};
}

void edges_of(std::span<const Peer> peers, std::vector<NeighborWeight>& edges,
              std::optional<double> weight) {
  edges.clear();
  for (const Peer& peer : peers) edges.push_back({peer.rank, weight.value_or(peer.weight)});
}

}  // namespace

// The machine graph's edges: with its weights, or uniform ones; what is sent is not weighted.
Status Context::Core::use_machine_graph(Rank own) {
  if (!machine_graph_) {
    return invalid(
        fmt::format("{}: there is no graph of machines: set_machine_graph() gives one, "
                    "or src_weights and dst_weights name the edges of a call",
                    kName));
  }
  const std::span<const Peer> in = machine_graph_->in_edges(own);
  const double uniform = 1.0 / static_cast<double>(in.size() + 1);
  machine_step_.self = machine_weighted_ ? machine_graph_->self_weight(own) : uniform;
  edges_of(in, machine_step_.in, machine_weighted_ ? std::optional<double>() : uniform);
  edges_of(machine_graph_->out_edges(own), machine_step_.out, 1.0);
  return {};
}

// The machines of this call and their weights, as neighbor_allreduce has those of ranks.
Status Context::Core::bind_machines(const NeighborWeights& weights, Rank own, int machines) {
  MachineStep& step = machine_step_;
  if ((weights.sources || weights.destinations) && !weights.self) {
    return invalid(fmt::format("{}: src_weights and dst_weights need a self_weight", kName));
  }
  if (weights.push_sum) WEFT_RETURN_IF_ERROR(check_push_sum(kName, weights, "machine", own));
  if (weights.sources && weights.destinations) {
    WEFT_RETURN_IF_ERROR(name_all("src_weights", *weights.sources, step.in, own, machines));
    WEFT_RETURN_IF_ERROR(name_all("dst_weights", *weights.destinations, step.out, own, machines));
  } else {
    WEFT_RETURN_IF_ERROR(use_machine_graph(own));
    if (weights.sources)
      WEFT_RETURN_IF_ERROR(name_some("src_weights", *weights.sources, step.in, own));
    if (weights.destinations) {
      // Data counts with the weight that its sender gave.
      for (NeighborWeight& edge : step.in) edge.weight = 1.0;
      WEFT_RETURN_IF_ERROR(name_some("dst_weights", *weights.destinations, step.out, own));
    }
  }
  if (!weights.self) return {};
  step.self = *weights.self;
  return check_machine_weight("self_weight", {own, step.self});
}

// The plan names ranks, and machines may have different numbers of them; so plans are kept by the
// very machines that a step has, and each set of those has a number.
std::uint32_t Context::Core::number_of_machine_step() {
  machine_set_.clear();
  for (const NeighborWeight& edge : machine_step_.in) machine_set_.push_back(edge.rank);
  machine_set_.push_back(kNoRank);
  for (const NeighborWeight& edge : machine_step_.out) machine_set_.push_back(edge.rank);
  const auto known = machine_sets_.find(machine_set_);
  if (known != machine_sets_.end()) return known->second;
  ++allocations_;
  return machine_sets_.emplace(machine_set_, next_machine_set_++).first->second;
}

// Each edge between ranks has the weight of the edge between their machines; inside one there are
// none.
void Context::Core::weigh_edges(std::span<Contact* const> ranks,
                                std::span<const NeighborWeight> machines, const Layout& layout,
                                std::vector<double>& weights) const {
  const int own = layout.machine_of(config_.rank);
  for (const Contact* contact : ranks) {
    const int machine = layout.machine_of(contact->rank);
    weights.push_back(
        machine == own
            ? 1.0
            : std::ranges::lower_bound(machines, machine, {}, &NeighborWeight::rank)->weight);
  }
}

Status Context::Core::invoke_hierarchical(Invocation& invocation, const Input& x, const Output& y,
                                          const NeighborWeights& weights) {
  WEFT_RETURN_IF_ERROR(check_same_count(kName, x, y));
  WEFT_RETURN_IF_ERROR(check_weighted(kName, x.type));
  WEFT_ASSIGN(const Machines* all, machines());
  WEFT_RETURN_IF_ERROR(hierarchical_);
  const Layout& layout = all->layout;
  const int own = layout.machine_of(config_.rank);
  WEFT_RETURN_IF_ERROR(bind_machines(weights, own, all->count()));
  Call& call = invocation.call;
  bind(call, Collective::hierarchical_neighbor_allreduce, x, y);
  WEFT_RETURN_IF_ERROR(bind_reduction(kName, call, x.type, ReduceOp::average,
                                      static_cast<int>(all->ranks_beside(config_.rank).size())));
  call.self_weight = machine_step_.self;
  PlanKey key;
  key.collective = Collective::hierarchical_neighbor_allreduce;
  key.in_place = is_in_place(x, y);
  key.position = number_of_machine_step();
  WEFT_RETURN_IF_ERROR(plan_everybody(invocation, key, [&] {
    View view{own, all->count(), {}, {}};
    for (const NeighborWeight& edge : machine_step_.in) view.in.push_back(edge.rank);
    for (const NeighborWeight& edge : machine_step_.out) view.out.push_back(edge.rank);
    return plan_hierarchical_neighbor_allreduce(config_.rank, layout, view, Shape{key.in_place});
  }));
  call.checks_graph = true;  // that of the machines
  weigh_edges(call.in, machine_step_.in, layout, invocation.receive_weights);
  weigh_edges(call.out, machine_step_.out, layout, invocation.send_weights);
  call.receive_weights = invocation.receive_weights;
  call.send_weights = invocation.send_weights;
  return {};
}

}  // namespace weft
