// machine_graph: the edges and weights of machines in one call.
#include "engine/context/machine_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "engine/context/operands.h"

namespace weft {
namespace {

// The most sets of machines that are kept with their numbers. A training loop has a few.
constexpr std::size_t kMostSets = 1024;

Status check_machine_weight(std::string_view what, std::string_view list,
                            const NeighborWeight& each) {
  if (std::isfinite(each.weight)) return {};
  return invalid(
      fmt::format("{}: the weight of machine {} in {} is {}", what, each.rank, list, each.weight));
}

Status named_twice(std::string_view what, std::string_view list, Rank machine) {
  return invalid(fmt::format("{}: {} names machine {} twice", what, list, machine));
}

// Sets the weights of the edges that a call names, and marks the graph's other edges as unused.
Status name_some(std::string_view what, std::string_view list,
                 std::span<const NeighborWeight> named, std::vector<NeighborWeight>& edges,
                 Rank own) {
  for (NeighborWeight& edge : edges) edge.weight = kUnused;
  for (const NeighborWeight& each : named) {
    WEFT_RETURN_IF_ERROR(check_machine_weight(what, list, each));
    const auto found = std::ranges::lower_bound(edges, each.rank, {}, &NeighborWeight::rank);
    if (found == edges.end() || found->rank != each.rank) {
      return invalid(
          fmt::format("{}: {} names machine {}, with which machine {} has no such edge "
                      "in the graph of machines",
                      what, list, each.rank, own));
    }
    if (!is_unused(found->weight)) return named_twice(what, list, each.rank);
    found->weight = each.weight + 0.0;  // a weight of -0.0 means 0, not kUnused
  }
  return {};
}

// Checks and sorts the edges of a call that names them all. They need not be in the graph.
Status name_all(std::string_view what, std::string_view list, std::span<const NeighborWeight> named,
                std::vector<NeighborWeight>& edges, Rank own, int machines) {
  edges.assign(named.begin(), named.end());
  std::ranges::sort(edges, {}, &NeighborWeight::rank);
  Rank previous = kNoRank;
  for (NeighborWeight& edge : edges) {
    WEFT_RETURN_IF_ERROR(check_machine_weight(what, list, edge));
    if (edge.rank < 0 || edge.rank >= machines || edge.rank == own) {
      return invalid(fmt::format("{}: {} names machine {}; it must be another of the machines 0…{}",
                                 what, list, edge.rank, machines - 1));
    }
    if (edge.rank == previous) return named_twice(what, list, edge.rank);
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

// Uses the edges of the machine graph, with its weights or uniform ones. The send-side weights
// are 1.
Status MachineGraph::use_graph(std::string_view what, Rank own) {
  if (!graph_) {
    return invalid(
        fmt::format("{}: there is no graph of machines: set_machine_graph() gives one, "
                    "or src_weights and dst_weights name the edges of a call",
                    what));
  }
  const std::span<const Peer> in = graph_->in_edges(own);
  const double uniform = 1.0 / static_cast<double>(in.size() + 1);
  step_.self = weighted_ ? graph_->self_weight(own) : uniform;
  edges_of(in, step_.in, weighted_ ? std::optional<double>() : uniform);
  edges_of(graph_->out_edges(own), step_.out, 1.0);
  return {};
}

Result<const MachineGraph::Step*> MachineGraph::bind(std::string_view what,
                                                     const NeighborWeights& weights, Rank own,
                                                     int machines) {
  if ((weights.sources || weights.destinations) && !weights.self)
    return invalid(fmt::format("{}: src_weights and dst_weights need a self_weight", what));
  if (weights.push_sum) WEFT_RETURN_IF_ERROR(check_push_sum(what, weights, "machine", own));
  if (weights.sources && weights.destinations) {
    WEFT_RETURN_IF_ERROR(name_all(what, "src_weights", *weights.sources, step_.in, own, machines));
    WEFT_RETURN_IF_ERROR(
        name_all(what, "dst_weights", *weights.destinations, step_.out, own, machines));
  } else {
    WEFT_RETURN_IF_ERROR(use_graph(what, own));
    if (weights.sources)
      WEFT_RETURN_IF_ERROR(name_some(what, "src_weights", *weights.sources, step_.in, own));
    if (weights.destinations) {
      // Data counts with the weight that its sender gave.
      for (NeighborWeight& edge : step_.in) edge.weight = 1.0;
      WEFT_RETURN_IF_ERROR(name_some(what, "dst_weights", *weights.destinations, step_.out, own));
    }
  }
  if (weights.self) {
    step_.self = *weights.self;
    WEFT_RETURN_IF_ERROR(check_machine_weight(what, "self_weight", {own, step_.self}));
  }
  return &step_;
}

std::uint32_t MachineGraph::number_of_step() {
  set_.clear();
  for (const NeighborWeight& edge : step_.in) set_.push_back(edge.rank);
  set_.push_back(kNoRank);
  for (const NeighborWeight& edge : step_.out) set_.push_back(edge.rank);
  if (const auto known = sets_.find(set_); known != sets_.end()) return known->second;
  // If a forgotten set is used again, it gets a new number, and with it a new plan.
  if (sets_.size() >= kMostSets) sets_.clear();
  return sets_.emplace(set_, next_set_++).first->second;
}

void MachineGraph::weigh_edges(std::span<PeerConnection* const> ranks,
                               std::span<const NeighborWeight> machines, const Layout& layout,
                               int own, std::vector<double>& weights) {
  for (const PeerConnection* connection : ranks) {
    const int machine = layout.machine_of(connection->rank);
    weights.push_back(
        machine == own
            ? 1.0
            : std::ranges::lower_bound(machines, machine, {}, &NeighborWeight::rank)->weight);
  }
}

}  // namespace weft
