// Degrees, connectivity and stochasticity of a graph.
#include <fmt/format.h>
#include <weft/graph/properties.h>
#include <weft/macros.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace weft {
namespace {

// The edges of a rank in one direction: Graph::in_edges or Graph::out_edges.
using Direction = std::span<const Peer> (Graph::*)(Rank) const;

bool all_reachable_from_first(const Graph& graph, Direction direction) {
  std::vector<bool> seen(static_cast<std::size_t>(graph.size()), false);
  std::vector<Rank> open = {0};
  seen[0] = true;
  int count = 1;
  while (!open.empty()) {
    const Rank rank = open.back();
    open.pop_back();
    for (const Peer& peer : (graph.*direction)(rank)) {
      if (seen[static_cast<std::size_t>(peer.rank)]) continue;
      seen[static_cast<std::size_t>(peer.rank)] = true;
      ++count;
      open.push_back(peer.rank);
    }
  }
  return count == graph.size();
}

int max_degree(const Graph& graph, Direction direction) {
  std::size_t most = 0;
  for (Rank r = 0; r < graph.size(); ++r) most = std::max(most, (graph.*direction)(r).size());
  return static_cast<int>(most);
}

bool same_degrees(const Graph& graph, Direction direction) {
  for (Rank r = 1; r < graph.size(); ++r) {
    if ((graph.*direction)(r).size() != (graph.*direction)(0).size()) return false;
  }
  return true;
}

Status check_sums(const Graph& graph, Direction direction, std::string_view what,
                  double tolerance) {
  for (Rank r = 0; r < graph.size(); ++r) {
    double sum = graph.self_weight(r);
    for (const Peer& peer : (graph.*direction)(r)) sum += peer.weight;
    if (!(std::abs(sum - 1) <= tolerance)) {
      return Status(Code::invalid_argument, fmt::format("{} {} sums to {:.6g}", what, r, sum), r);
    }
  }
  return {};
}

}  // namespace

bool is_regular(const Graph& graph) {
  return same_degrees(graph, &Graph::in_edges) && same_degrees(graph, &Graph::out_edges);
}

bool is_undirected(const Graph& graph) {
  const auto same_rank = [](const Peer& a, const Peer& b) { return a.rank == b.rank; };
  for (Rank r = 0; r < graph.size(); ++r) {
    const std::span<const Peer> in = graph.in_edges(r);
    const std::span<const Peer> out = graph.out_edges(r);
    if (!std::equal(in.begin(), in.end(), out.begin(), out.end(), same_rank)) return false;
  }
  return true;
}

bool is_strongly_connected(const Graph& graph) {
  return all_reachable_from_first(graph, &Graph::out_edges) &&
         all_reachable_from_first(graph, &Graph::in_edges);
}

int max_in_degree(const Graph& graph) {
  return max_degree(graph, &Graph::in_edges);
}
int max_out_degree(const Graph& graph) {
  return max_degree(graph, &Graph::out_edges);
}

Status check_row_stochastic(const Graph& graph, double tolerance) {
  return check_sums(graph, &Graph::in_edges, "row", tolerance);
}

Status check_column_stochastic(const Graph& graph, double tolerance) {
  return check_sums(graph, &Graph::out_edges, "column", tolerance);
}

Status check_doubly_stochastic(const Graph& graph, double tolerance) {
  WEFT_RETURN_IF_ERROR(check_row_stochastic(graph, tolerance));
  return check_column_stochastic(graph, tolerance);
}

}  // namespace weft
