// Graph: a weighted directed graph over the ranks 0…size-1. LocalView: the part that one rank
// needs.
//
// A Graph is immutable and cheap to copy: copies share one storage, so every context and thread may
// keep one. It is stored sparsely, once by receiver and once by sender. Each row is in ascending
// rank order, which is also the order of sums and of concatenated results.
//
// Invariants: no self edge (that is the self weight), no edge twice, no edge of weight 0, finite
// weights.
#pragma once

#include <weft/export.h>
#include <weft/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace WEFT_PUBLIC weft {

// The edge from -> to; `weight` is w_(to,from), which the receiver applies.
struct Edge {
  Rank from = kNoRank;
  Rank to = kNoRank;
  double weight = 0;

  friend bool operator==(const Edge&, const Edge&) = default;
};

// The other end of an edge, and the edge's weight.
struct Peer {
  Rank rank = kNoRank;
  double weight = 0;

  friend bool operator==(const Peer&, const Peer&) = default;
};

// What one rank knows of a graph, or of one step of a schedule. `in` and `out` are in ascending
// rank order. The weight of an in-peer x is w_(rank,x), which this rank applies to what x sent. The
// weight of an out-peer y is w_(y,rank), which y applies.
struct LocalView {
  Rank rank = 0;
  int size = 1;
  std::vector<Peer> in;
  std::vector<Peer> out;
  double self_weight = 1;

  friend bool operator==(const LocalView&, const LocalView&) = default;
};

// Bounds, so that a number on a command line cannot ask for all memory. The first is a hundred
// times the largest cluster that is simulated. The second is the edges of about 11,000 fully
// connected ranks (some 4 GiB of peers).
inline constexpr int kMostRanks = 1 << 20;
inline constexpr std::int64_t kMostEdges = std::int64_t{1} << 27;

// Ok if n is 1…kMostRanks, and n ranks with `degree` edges each have at most kMostEdges edges.
Status check_graph_size(int n, std::int64_t degree);

class Graph {
 public:
  // The graph with these edges. self_weights[r] is w_rr, one for each rank. An edge of weight 0 is
  // checked like any other and then dropped, because neighbors are the ranks with w_ij != 0. Errors
  // name the first bad edge: "edge 3 -> 9: rank 9 is outside 0…7". Time and memory O(n + edges).
  static Result<Graph> from_edges(int n, const std::vector<Edge>& edges,
                                  const std::vector<double>& self_weights, std::string name);
  // The graph of a dense W, row-major: weights[i * n + j] is w_ij.
  static Result<Graph> from_matrix(int n, const std::vector<double>& weights, std::string name);

  // Copies share the storage. There is no move on purpose: a moved-from graph would be invalid.
  Graph(const Graph&) = default;
  Graph& operator=(const Graph&) = default;
  ~Graph() = default;

  [[nodiscard]] int size() const { return static_cast<int>(storage_->self_weights.size()); }
  [[nodiscard]] std::int64_t edge_count() const { return std::ssize(storage_->in.peers); }
  // A name for people and tools. The name of a generated graph is the text from which make_graph
  // makes the same graph again.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Graph renamed(std::string name) const { return Graph(storage_, std::move(name)); }

  // The ranks that send to `rank`, and those to which it sends. Valid while any copy of this graph
  // lives.
  [[nodiscard]] std::span<const Peer> in_edges(Rank rank) const { return row(storage_->in, rank); }
  [[nodiscard]] std::span<const Peer> out_edges(Rank rank) const {
    return row(storage_->out, rank);
  }
  [[nodiscard]] double self_weight(Rank rank) const;
  // w_(to,from). It is the self weight if both are equal, and 0 if there is no such edge. O(log
  // degree).
  [[nodiscard]] double weight(Rank to, Rank from) const;
  // Every edge, ascending by receiver, then by sender.
  [[nodiscard]] std::vector<Edge> edges() const;
  [[nodiscard]] const std::vector<double>& self_weights() const { return storage_->self_weights; }
  [[nodiscard]] LocalView local_view(Rank rank) const;

  // Equal if size, edges and weights are equal. The name does not count.
  friend bool operator==(const Graph& a, const Graph& b);

 private:
  // Compressed sparse rows: row r is peers[first[r]] … peers[first[r + 1] - 1].
  struct Rows {
    std::vector<std::size_t> first;
    std::vector<Peer> peers;

    friend bool operator==(const Rows&, const Rows&) = default;
  };
  struct Storage {
    std::vector<double> self_weights;
    Rows in;
    Rows out;

    friend bool operator==(const Storage&, const Storage&) = default;
  };

  Graph(std::shared_ptr<const Storage> storage, std::string name)
      : storage_(std::move(storage)), name_(std::move(name)) {}
  static Rows rows_by_sender(int n, const std::vector<Edge>& edges);
  static Rows transpose(const Rows& rows);
  static Status check_no_duplicates(const Rows& in);
  [[nodiscard]] std::span<const Peer> row(const Rows& rows, Rank rank) const;

  std::shared_ptr<const Storage> storage_;
  std::string name_;
};

}  // namespace weft
