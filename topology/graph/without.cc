// without: taking ranks out of a graph, one after the other, and numbering what is left anew.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <weft/graph/properties.h>
#include <weft/graph/without.h>
#include <weft/macros.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace weft {
namespace {

// Less than this is what rounding leaves.
constexpr double kNothing = 1e-12;

Status check_ranks(const Graph& graph, std::span<const Rank> ranks) {
  std::vector<bool> seen(static_cast<std::size_t>(graph.size()));
  for (const Rank rank : ranks) {
    if (rank < 0 || rank >= graph.size()) {
      return Status(Code::invalid_argument, fmt::format("{}: rank {} is outside 0…{}", graph.name(),
                                                        rank, graph.size() - 1));
    }
    if (seen[static_cast<std::size_t>(rank)]) {
      return Status(Code::invalid_argument,
                    fmt::format("{}: rank {} is named twice", graph.name(), rank));
    }
    seen[static_cast<std::size_t>(rank)] = true;
  }
  return {};
}

// A matrix of weights whose rows and columns can be changed.
class Weights {
 public:
  explicit Weights(const Graph& graph) : self_(graph.self_weights()) {
    for (const Edge& edge : graph.edges()) edges_[{edge.to, edge.from}] = edge.weight;
  }

  void add(Rank to, Rank from, double weight) {
    (to == from ? self_[static_cast<std::size_t>(to)] : edges_[{to, from}]) += weight;
  }
  void isolate(const Graph& graph, Rank gone) {
    for (const Peer& peer : graph.in_edges(gone)) edges_.erase({gone, peer.rank});
    for (const Peer& peer : graph.out_edges(gone)) edges_.erase({peer.rank, gone});
    self_[static_cast<std::size_t>(gone)] = 1;
  }
  [[nodiscard]] Result<Graph> graph(const std::string& name) const {
    std::vector<Edge> edges;
    edges.reserve(edges_.size());
    for (const auto& [ends, weight] : edges_) edges.push_back({ends.second, ends.first, weight});
    return Graph::from_edges(static_cast<int>(self_.size()), edges, self_, name);
  }

 private:
  std::map<std::pair<Rank, Rank>, double> edges_;  // by receiver and sender
  std::vector<double> self_;
};

std::vector<Peer> peers_of(std::span<const Peer> peers) {
  return {peers.begin(), peers.end()};
}

// Receivers take from senders in turn, each until it has what it lost. The senders begin with the second one,
// so that the two neighbors of a rank in a ring meet each other and not themselves.
Result<Graph> bypassed(const Graph& graph, Rank gone) {
  std::vector<Peer> needs = peers_of(graph.out_edges(gone));
  std::vector<Peer> gives = peers_of(graph.in_edges(gone));
  if (!gives.empty()) std::ranges::rotate(gives, gives.begin() + 1);
  Weights weights(graph);
  weights.isolate(graph, gone);
  std::size_t to = 0, from = 0;
  while (to < needs.size() && from < gives.size()) {
    const double part = std::min(needs[to].weight, gives[from].weight);
    if (part > kNothing) weights.add(needs[to].rank, gives[from].rank, part);
    needs[to].weight -= part;
    gives[from].weight -= part;
    if (needs[to].weight <= kNothing) ++to;
    if (gives[from].weight <= kNothing) ++from;
  }
  const bool keeps_columns = is_column_stochastic(graph);
  if (is_row_stochastic(graph) || !keeps_columns) {
    for (; to < needs.size(); ++to) weights.add(needs[to].rank, needs[to].rank, needs[to].weight);
  } else {
    for (; from < gives.size(); ++from)
      weights.add(gives[from].rank, gives[from].rank, gives[from].weight);
  }
  return weights.graph(graph.name());
}

// Everything that went through the rank goes directly.
Result<Graph> complement(const Graph& graph, Rank gone) {
  Weights weights(graph);
  weights.isolate(graph, gone);
  const double passed_on = 1 - graph.self_weight(gone);
  for (const Peer& to : graph.out_edges(gone)) {
    for (const Peer& from : graph.in_edges(gone))
      weights.add(to.rank, from.rank, to.weight * from.weight / passed_on);
  }
  return weights.graph(graph.name());
}

// Whether the ranks that are left reach each other.
Result<bool> are_connected(const Graph& graph, const std::vector<bool>& is_gone) {
  std::vector<Rank> left;
  for (Rank rank = 0; rank < graph.size(); ++rank)
    if (!is_gone[static_cast<std::size_t>(rank)]) left.push_back(rank);
  if (left.empty()) return true;
  WEFT_ASSIGN(const Graph part, among(graph, left));
  return is_strongly_connected(part);
}

}  // namespace

Result<Graph> without(const Graph& graph, std::span<const Rank> gone) {
  WEFT_RETURN_IF_ERROR(check_ranks(graph, gone));
  if (gone.empty()) return graph;
  std::vector<Rank> order(gone.begin(), gone.end());
  std::ranges::sort(order);
  Graph left = graph;
  std::vector<bool> is_gone(static_cast<std::size_t>(graph.size()));
  WEFT_ASSIGN(const bool were_connected, are_connected(graph, is_gone));
  for (const Rank rank : order) {
    is_gone[static_cast<std::size_t>(rank)] = true;
    WEFT_ASSIGN(Graph next, bypassed(left, rank));
    WEFT_ASSIGN(const bool are, are_connected(next, is_gone));
    if (were_connected && !are && left.self_weight(rank) < 1 - kNothing) {
      WEFT_ASSIGN(next, complement(left, rank));
    }
    left = next;
  }
  return left.renamed(fmt::format("{} without {}", graph.name(), fmt::join(order, ", ")));
}

Result<Graph> among(const Graph& graph, std::span<const Rank> ranks) {
  WEFT_RETURN_IF_ERROR(check_ranks(graph, ranks));
  if (ranks.empty()) return Status(Code::invalid_argument, graph.name() + ": among no ranks");
  std::vector<Rank> number(static_cast<std::size_t>(graph.size()), kNoRank);
  for (std::size_t k = 0; k < ranks.size(); ++k)
    number[static_cast<std::size_t>(ranks[k])] = static_cast<Rank>(k);
  std::vector<Edge> edges;
  for (const Edge& edge : graph.edges()) {
    const Rank from = number[static_cast<std::size_t>(edge.from)];
    const Rank to = number[static_cast<std::size_t>(edge.to)];
    if (from != kNoRank && to != kNoRank) edges.push_back({from, to, edge.weight});
  }
  std::vector<double> self_weights;
  for (const Rank rank : ranks) self_weights.push_back(graph.self_weight(rank));
  return Graph::from_edges(static_cast<int>(ranks.size()), edges, self_weights, graph.name());
}

}  // namespace weft
