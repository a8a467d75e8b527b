// Building a Graph from edges or a matrix, with checks that name what is wrong, and looking things
// up in it.
#include <fmt/format.h>
#include <weft/export.h>
#include <weft/graph/digraph.h>
#include <weft/macros.h>

#include <algorithm>
#include <cmath>

namespace weft {
namespace {

std::size_t index(Rank rank) {
  return static_cast<std::size_t>(rank);
}

Status bad_edge(const Edge& edge, const std::string& why) {
  return Status(Code::invalid_argument, fmt::format("edge {} -> {}: {}", edge.from, edge.to, why));
}

Status check_edge(int n, const Edge& edge) {
  for (const Rank rank : {edge.from, edge.to}) {
    if (rank < 0 || rank >= n) {
      return bad_edge(edge, fmt::format("rank {} is outside 0…{}", rank, n - 1));
    }
  }
  if (edge.from == edge.to)
    return bad_edge(edge, "a rank's own weight is its self weight, not an edge");
  if (!std::isfinite(edge.weight)) {
    return bad_edge(edge, fmt::format("weight {} is not finite", edge.weight));
  }
  return {};
}

Status check_self_weights(int n, const std::vector<double>& self_weights) {
  if (std::ssize(self_weights) != n) {
    return Status(Code::invalid_argument,
                  fmt::format("{} self weights were given for {} ranks", self_weights.size(), n));
  }
  const auto bad = std::find_if_not(self_weights.begin(), self_weights.end(),
                                    [](double weight) { return std::isfinite(weight); });
  if (bad == self_weights.end()) return {};
  return Status(Code::invalid_argument, fmt::format("the self weight of rank {} is {}, not finite",
                                                    bad - self_weights.begin(), *bad));
}

}  // namespace

Status check_graph_size(int n, std::int64_t degree) {
  if (n < 1 || n > kMostRanks) {
    return Status(Code::invalid_argument,
                  fmt::format("n = {}: a graph has 1…{} ranks", n, kMostRanks));
  }
  if (degree > kMostEdges / n) {
    return Status(Code::invalid_argument,
                  fmt::format("{} ranks of degree {} exceed {} edges", n, degree, kMostEdges));
  }
  return {};
}

Result<Graph> Graph::from_edges(int n, const std::vector<Edge>& edges,
                                const std::vector<double>& self_weights, std::string name) {
  WEFT_RETURN_IF_ERROR(check_graph_size(n, 0));
  WEFT_RETURN_IF_ERROR(check_self_weights(n, self_weights));
  for (const Edge& edge : edges) WEFT_RETURN_IF_ERROR(check_edge(n, edge));

  // Transposing lists each row in rank order, so two transpositions sort both directions in O(n +
  // edges).
  Rows in = transpose(rows_by_sender(n, edges));
  WEFT_RETURN_IF_ERROR(check_no_duplicates(in));
  const bool has_zero =
      std::any_of(edges.begin(), edges.end(), [](const Edge& edge) { return edge.weight == 0; });
  if (has_zero) {
    std::vector<Edge> kept;
    std::copy_if(edges.begin(), edges.end(), std::back_inserter(kept),
                 [](const Edge& edge) { return edge.weight != 0; });
    in = transpose(rows_by_sender(n, kept));
  }
  Rows out = transpose(in);
  return Graph(
      std::make_shared<const Storage>(Storage{self_weights, std::move(in), std::move(out)}),
      std::move(name));
}

Result<Graph> Graph::from_matrix(int n, const std::vector<double>& weights, std::string name) {
  WEFT_RETURN_IF_ERROR(check_graph_size(n, 0));
  if (std::ssize(weights) != std::int64_t{n} * n) {
    return Status(Code::invalid_argument,
                  fmt::format("{} weights were given; a matrix of {} ranks has {}", weights.size(),
                              n, std::int64_t{n} * n));
  }
  std::vector<Edge> edges;
  std::vector<double> self_weights;
  for (Rank to = 0; to < n; ++to) {
    for (Rank from = 0; from < n; ++from) {
      const double weight = weights[index(to) * index(n) + index(from)];
      if (from == to) {
        self_weights.push_back(weight);
      } else if (weight != 0) {
        edges.push_back({from, to, weight});
      }
    }
  }
  return from_edges(n, edges, self_weights, std::move(name));
}

Graph::Rows Graph::rows_by_sender(int n, const std::vector<Edge>& edges) {
  Rows rows;
  rows.first.assign(index(n) + 1, 0);
  for (const Edge& edge : edges) ++rows.first[index(edge.from) + 1];
  for (std::size_t r = 0; r < index(n); ++r) rows.first[r + 1] += rows.first[r];
  rows.peers.resize(edges.size());
  std::vector<std::size_t> next(rows.first.begin(), rows.first.end() - 1);
  for (const Edge& edge : edges) rows.peers[next[index(edge.from)]++] = {edge.to, edge.weight};
  return rows;
}

Graph::Rows Graph::transpose(const Rows& rows) {
  Rows result;
  const std::size_t n = rows.first.size() - 1;
  result.first.assign(n + 1, 0);
  for (const Peer& peer : rows.peers) ++result.first[index(peer.rank) + 1];
  for (std::size_t r = 0; r < n; ++r) result.first[r + 1] += result.first[r];
  result.peers.resize(rows.peers.size());
  std::vector<std::size_t> next(result.first.begin(), result.first.end() - 1);
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t e = rows.first[r]; e < rows.first[r + 1]; ++e) {
      const Peer& peer = rows.peers[e];
      result.peers[next[index(peer.rank)]++] = {static_cast<Rank>(r), peer.weight};
    }
  }
  return result;
}

Status Graph::check_no_duplicates(const Rows& in) {
  for (std::size_t to = 0; to + 1 < in.first.size(); ++to) {
    for (std::size_t e = in.first[to] + 1; e < in.first[to + 1]; ++e) {
      if (in.peers[e].rank == in.peers[e - 1].rank) {
        return bad_edge({in.peers[e].rank, static_cast<Rank>(to), 0}, "given twice");
      }
    }
  }
  return {};
}

std::span<const Peer> Graph::row(const Rows& rows, Rank rank) const {
  invariant(rank >= 0 && rank < size(), "a rank outside the graph");
  const std::size_t first = rows.first[index(rank)];
  return std::span(rows.peers).subspan(first, rows.first[index(rank) + 1] - first);
}

double Graph::self_weight(Rank rank) const {
  invariant(rank >= 0 && rank < size(), "a rank outside the graph");
  return storage_->self_weights[index(rank)];
}

double Graph::weight(Rank to, Rank from) const {
  if (to == from) return self_weight(to);
  invariant(from >= 0 && from < size(), "a rank outside the graph");
  const std::span<const Peer> peers = in_edges(to);
  const auto found = std::lower_bound(peers.begin(), peers.end(), from,
                                      [](const Peer& peer, Rank rank) { return peer.rank < rank; });
  return found != peers.end() && found->rank == from ? found->weight : 0;
}

std::vector<Edge> Graph::edges() const {
  std::vector<Edge> edges;
  edges.reserve(storage_->in.peers.size());
  for (Rank to = 0; to < size(); ++to) {
    for (const Peer& peer : in_edges(to)) edges.push_back({peer.rank, to, peer.weight});
  }
  return edges;
}

LocalView Graph::local_view(Rank rank) const {
  const std::span<const Peer> in = in_edges(rank);
  const std::span<const Peer> out = out_edges(rank);
  return {rank, size(), {in.begin(), in.end()}, {out.begin(), out.end()}, self_weight(rank)};
}

// A friend that a class declares has not the visibility of the namespace around the class.
WEFT_PUBLIC bool operator==(const Graph& a, const Graph& b) {
  return a.storage_ == b.storage_ || *a.storage_ == *b.storage_;
}

}  // namespace weft
