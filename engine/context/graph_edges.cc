// graph_edges: connecting the graph's peers, and binding the weights of a call.
#include "engine/context/graph_edges.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "engine/context/operands.h"

namespace weft {
namespace {

constexpr std::string_view kName = "neighbor_allreduce";

// A weight of -0.0 means 0, not kUnused.
double as_weight(double given) {
  return given + 0.0;
}

// Sets the weights of the edges that a call names, and marks the graph's other edges as unused.
Status weigh_some(std::span<const NeighborWeight> named, std::span<PeerConnection* const> edges,
                  std::vector<double>& values, const char* list, auto&& no_such_edge) {
  values.assign(edges.size(), kUnused);
  for (const NeighborWeight& each : named) {
    WEFT_RETURN_IF_ERROR(check_weight(kName, each.weight, each.rank));
    const auto found = std::ranges::lower_bound(edges, each.rank, {}, &PeerConnection::rank);
    if (found == edges.end() || (*found)->rank != each.rank) return no_such_edge(each.rank);
    double& value = values[static_cast<std::size_t>(found - edges.begin())];
    if (!is_unused(value))
      return invalid(fmt::format("{}: {} names rank {} twice", kName, list, each.rank));
    value = as_weight(each.weight);
  }
  return {};
}

}  // namespace

void GraphEdges::set(const Graph& graph, bool weighted) {
  graph_ = graph;
  weighted_ = weighted;
  is_connected_ = false;
}

Status GraphEdges::connect() {
  in_.clear();
  out_.clear();
  weights_.clear();
  for (const Peer& peer : graph_.in_edges(config_.rank)) {
    WEFT_ASSIGN(PeerConnection * found, peers_.connection(peer.rank));
    in_.push_back(found);
  }
  for (const Peer& peer : graph_.out_edges(config_.rank)) {
    WEFT_ASSIGN(PeerConnection * found, peers_.connection(peer.rank));
    out_.push_back(found);
  }
  const double uniform = 1.0 / static_cast<double>(in_.size() + 1);
  for (const Peer& peer : graph_.in_edges(config_.rank))
    weights_.push_back(weighted_ ? peer.weight : uniform);
  self_weight_ = weighted_ ? graph_.self_weight(config_.rank) : uniform;
  is_connected_ = true;
  return {};
}

Status GraphEdges::bind(BoundCall& bound_call) {
  if (!is_connected_) WEFT_RETURN_IF_ERROR(connect());
  bound_call.call.in = in_;
  bound_call.call.out = out_;
  return {};
}

Status GraphEdges::bind(BoundCall& bound_call, const NeighborWeights& weights) {
  if ((weights.sources || weights.destinations) && !weights.self)
    return invalid(fmt::format("{}: src_weights and dst_weights need a self_weight", kName));
  if (weights.push_sum) WEFT_RETURN_IF_ERROR(check_push_sum(kName, weights, "rank", config_.rank));
  if (weights.destinations && weights.sources) {
    WEFT_RETURN_IF_ERROR(bind_edges_of_call(bound_call, weights));
  } else if (weights.destinations) {
    WEFT_RETURN_IF_ERROR(bind_push(bound_call, *weights.destinations));
  } else if (weights.sources) {
    WEFT_RETURN_IF_ERROR(bind_pull(bound_call, *weights.sources));
  } else {
    WEFT_RETURN_IF_ERROR(bind(bound_call));
    bound_call.call.receive_weights = weights_;
    bound_call.call.self_weight = self_weight_;
  }
  if (!weights.self) return {};
  bound_call.call.self_weight = *weights.self;
  return check_weight(kName, *weights.self, config_.rank);
}

// Weights for some of the graph's in-neighbors. The other in-neighbors still send, and their data
// is not used.
Status GraphEdges::bind_pull(BoundCall& bound_call, std::span<const NeighborWeight> sources) {
  WEFT_RETURN_IF_ERROR(bind(bound_call));
  const auto no_edge = [&](Rank rank) {
    return invalid(
        fmt::format("{}: src_weights names rank {}, which is no in-neighbor of rank {} in {}",
                    kName, rank, config_.rank, graph_.name()));
  };
  WEFT_RETURN_IF_ERROR(
      weigh_some(sources, bound_call.call.in, bound_call.receive_weights, "src_weights", no_edge));
  bound_call.call.receive_weights = bound_call.receive_weights;
  return {};
}

// Pure push over the graph: only the sender knows to which out-neighbors it pushes in this step.
// Therefore every out-neighbor gets a message from this rank. The message contains data, or says
// that there is none. Data counts with the weight that its sender gave.
Status GraphEdges::bind_push(BoundCall& bound_call, std::span<const NeighborWeight> targets) {
  WEFT_RETURN_IF_ERROR(bind(bound_call));
  const auto no_edge = [&](Rank rank) {
    return invalid(fmt::format(
        "{}: dst_weights names rank {}, which is no out-neighbor of rank {} in {}; give "
        "src_weights too for edges outside of the graph",
        kName, rank, config_.rank, graph_.name()));
  };
  WEFT_RETURN_IF_ERROR(
      weigh_some(targets, bound_call.call.out, bound_call.send_weights, "dst_weights", no_edge));
  bound_call.call.send_weights = bound_call.send_weights;
  return {};
}

// Binds one side of a call that names its own edges: the peers, ascending by rank, and their
// weights.
Status GraphEdges::bind_side(std::span<const NeighborWeight> list, const char* what,
                             std::vector<PeerConnection*>& peers, std::vector<double>& values) {
  if (!std::ranges::is_sorted(list, {}, &NeighborWeight::rank)) {
    sorted_.assign(list.begin(), list.end());
    std::ranges::sort(sorted_, {}, &NeighborWeight::rank);
    list = sorted_;
  }
  Rank previous = kNoRank;
  for (const NeighborWeight& entry : list) {
    if (!std::isfinite(entry.weight)) [[unlikely]]
      return check_weight(kName, entry.weight, entry.rank);
    if (entry.rank < 0 || entry.rank >= config_.size || entry.rank == config_.rank) {
      return invalid(fmt::format("{}: {} names rank {}; it must be another of the ranks 0…{}",
                                 kName, what, entry.rank, config_.size - 1));
    }
    if (entry.rank == previous)
      return invalid(fmt::format("{}: {} names rank {} twice", kName, what, entry.rank));
    previous = entry.rank;
    PeerConnection* found = peers_.recent(entry.rank);
    if (found == nullptr) {
      WEFT_ASSIGN(found, peers_.connection(entry.rank));
    }
    peers.push_back(found);
    values.push_back(as_weight(entry.weight));
  }
  return {};
}

// Binds a call that names both sources and destinations. Its edges need not be in the graph.
Status GraphEdges::bind_edges_of_call(BoundCall& bound_call, const NeighborWeights& weights) {
  WEFT_RETURN_IF_ERROR(
      bind_side(*weights.sources, "src_weights", bound_call.in, bound_call.receive_weights));
  WEFT_RETURN_IF_ERROR(
      bind_side(*weights.destinations, "dst_weights", bound_call.out, bound_call.send_weights));
  bound_call.call.in = bound_call.in;
  bound_call.call.out = bound_call.out;
  bound_call.call.receive_weights = bound_call.receive_weights;
  bound_call.call.send_weights = bound_call.send_weights;
  return {};
}

bool GraphEdges::rebind(BoundCall& bound_call, const NeighborWeights& weights) {
  const auto rebind_side = [](std::span<const NeighborWeight> list,
                              const std::vector<PeerConnection*>& peers,
                              std::vector<double>& values) {
    if (list.size() != peers.size()) return false;
    for (std::size_t k = 0; k < list.size(); ++k) {
      if (list[k].rank != peers[k]->rank || !std::isfinite(list[k].weight)) return false;
      values[k] = as_weight(list[k].weight);
    }
    return true;
  };
  if (!std::isfinite(*weights.self)) return false;
  bound_call.call.self_weight = *weights.self;
  return rebind_side(*weights.sources, bound_call.in, bound_call.receive_weights) &&
         rebind_side(*weights.destinations, bound_call.out, bound_call.send_weights);
}

}  // namespace weft
