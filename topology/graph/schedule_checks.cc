// All ranks' views of a step put together: contradictions, the step as a graph, the union over a
// period.
#include <fmt/format.h>
#include <weft/graph/schedule.h>
#include <weft/macros.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "topology/graph/structure.h"

namespace weft {
namespace {

struct StepEdges {
  std::vector<Edge> sent;
  std::vector<Edge> received;
  std::vector<double> self_weights;
};

bool earlier(const Edge& a, const Edge& b) {
  return std::tie(a.to, a.from) < std::tie(b.to, b.from);
}

StepEdges collect(const Schedule& schedule, std::uint64_t step) {
  StepEdges edges;
  for (Rank rank = 0; rank < schedule.size(); ++rank) {
    const LocalView view = schedule.local_view(step, rank);
    for (const Peer& peer : view.out) edges.sent.push_back({rank, peer.rank, peer.weight});
    for (const Peer& peer : view.in) edges.received.push_back({peer.rank, rank, peer.weight});
    edges.self_weights.push_back(view.self_weight);
  }
  std::sort(edges.sent.begin(), edges.sent.end(), earlier);
  std::sort(edges.received.begin(), edges.received.end(), earlier);
  return edges;
}

Status contradiction(std::uint64_t step, const Edge& edge, const std::string& what) {
  return Status(Code::mismatch,
                fmt::format("step {}: edge {} -> {} is {}", step, edge.from, edge.to, what));
}

// Both lists are sorted; the first place where they differ is the first edge that only one end has.
Status compare(std::uint64_t step, const std::vector<Edge>& sent,
               const std::vector<Edge>& received) {
  const auto [s, r] = std::mismatch(sent.begin(), sent.end(), received.begin(), received.end());
  if (s == sent.end() && r == received.end()) return {};
  if (r == received.end() || (s != sent.end() && earlier(*s, *r))) {
    return contradiction(step, *s, "sent but not received");
  }
  if (s == sent.end() || earlier(*r, *s)) {
    return contradiction(step, *r, "received but not sent");
  }
  return contradiction(
      step, *s, fmt::format("sent with weight {} but received with {}", s->weight, r->weight));
}

bool same_ends(const Edge& a, const Edge& b) {
  return a.from == b.from && a.to == b.to;
}

}  // namespace

Result<Graph> step_graph(const Schedule& schedule, std::uint64_t step) {
  const StepEdges edges = collect(schedule, step);
  WEFT_RETURN_IF_ERROR(compare(step, edges.sent, edges.received));
  return Graph::from_edges(schedule.size(), edges.sent, edges.self_weights,
                           fmt::format("{} at step {}", schedule.name(), step));
}

Status check_consistent(const Schedule& schedule) {
  for (std::uint64_t step = 0; step < schedule.cover(); ++step) {
    WEFT_RETURN_IF_ERROR(step_graph(schedule, step).status());
  }
  return {};
}

Result<Graph> union_graph(const Schedule& schedule) {
  std::vector<Edge> seen;
  for (std::uint64_t step = 0; step < schedule.cover(); ++step) {
    WEFT_ASSIGN(const Graph graph, step_graph(schedule, step));
    const std::vector<Edge> edges = graph.edges();
    const auto middle = seen.insert(seen.end(), edges.begin(), edges.end());
    std::inplace_merge(seen.begin(), middle, seen.end(), earlier);
    seen.erase(std::unique(seen.begin(), seen.end(), same_ends), seen.end());
  }
  Structure structure(schedule.size());
  for (const Edge& edge : seen) structure.add(edge.from, edge.to);
  return structure.weighted(WeightRule::uniform, "union of " + schedule.name());
}

}  // namespace weft
