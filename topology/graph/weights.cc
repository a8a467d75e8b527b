// The weight rules: each is one formula for an edge; self weights are what a row or column leaves
// over.
#include <fmt/format.h>
#include <weft/graph/weights.h>

#include <algorithm>
#include <array>

#include "topology/graph/arguments.h"

namespace weft {
namespace {

constexpr std::array kRules = {WeightRule::uniform, WeightRule::metropolis_hastings,
                               WeightRule::push_uniform};

double share(std::span<const Peer> peers) {
  return 1.0 / static_cast<double>(peers.size() + 1);
}

double edge_weight(const Graph& graph, WeightRule rule, const Edge& edge) {
  const double receiver = share(graph.in_edges(edge.to));
  const double sender = share(graph.out_edges(edge.from));
  switch (rule) {
    case WeightRule::uniform:
      return receiver;
    case WeightRule::metropolis_hastings:
      return std::min(receiver, sender);
    case WeightRule::push_uniform:
      return sender;
  }
  return 0;
}

double self_weight(const Graph& graph, WeightRule rule, Rank rank) {
  switch (rule) {
    case WeightRule::uniform:
      return share(graph.in_edges(rank));
    case WeightRule::push_uniform:
      return share(graph.out_edges(rank));
    case WeightRule::metropolis_hastings:
      break;
  }
  double rest = 1;
  for (const Peer& peer : graph.in_edges(rank)) {
    rest -= edge_weight(graph, rule, {peer.rank, rank, 0});
  }
  return rest;
}

}  // namespace

std::string_view name(WeightRule rule) {
  switch (rule) {
    case WeightRule::uniform:
      return "uniform";
    case WeightRule::metropolis_hastings:
      return "metropolis_hastings";
    case WeightRule::push_uniform:
      return "push_uniform";
  }
  return "unknown";
}

Result<WeightRule> weight_rule(std::string_view text) {
  for (const WeightRule rule : kRules) {
    if (name(rule) == text) return rule;
  }
  return Status(Code::invalid_argument,
                fmt::format("weights '{}': known are {}, {}, {}", shown(text), name(kRules[0]),
                            name(kRules[1]), name(kRules[2])));
}

Result<Graph> reweighted(const Graph& graph, WeightRule rule) {
  std::vector<Edge> edges = graph.edges();
  for (Edge& edge : edges) {
    if (rule == WeightRule::metropolis_hastings && graph.weight(edge.from, edge.to) == 0) {
      return Status(Code::invalid_argument,
                    fmt::format("edge {} -> {}: Metropolis-Hastings weights need its reverse edge",
                                edge.from, edge.to));
    }
    edge.weight = edge_weight(graph, rule, edge);
  }
  std::vector<double> self_weights;
  for (Rank r = 0; r < graph.size(); ++r) self_weights.push_back(self_weight(graph, rule, r));
  return Graph::from_edges(graph.size(), edges, self_weights, graph.name());
}

}  // namespace weft
