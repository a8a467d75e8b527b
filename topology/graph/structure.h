// Edges without weights, and the graph that a weight rule makes of them. Internal to the
// generators.
#pragma once

#include <weft/graph/weights.h>
#include <weft/macros.h>

#include <string>
#include <utility>
#include <vector>

namespace weft {

// Edges whose weights are not computed yet. Weight 1 means that there is an edge.
class Structure {
 public:
  explicit Structure(int n) : n_(n) {}
  void add(Rank from, Rank to) { edges_.push_back({from, to, 1}); }
  void add_both(Rank a, Rank b) {
    add(a, b);
    add(b, a);
  }
  [[nodiscard]] Result<Graph> weighted(WeightRule rule, std::string name) const {
    const std::vector<double> ones(static_cast<std::size_t>(n_), 1);
    WEFT_ASSIGN(const Graph graph, Graph::from_edges(n_, edges_, ones, std::move(name)));
    return reweighted(graph, rule);
  }

 private:
  int n_;
  std::vector<Edge> edges_;
};

}  // namespace weft
