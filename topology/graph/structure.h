// Internal to the generators: edges without weights, and a graph made of them under a weight rule.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "topology/graph/weights.h"

namespace weft {

// Edges whose weights are still to be computed; 1 stands for "there is an edge".
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
