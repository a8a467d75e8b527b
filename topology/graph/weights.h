// Weight rules: the same edges with weights computed from degrees. Weights of one's own come in
// through Graph::from_edges and Graph::from_matrix.
#pragma once

#include <string_view>

#include "topology/graph/digraph.h"

namespace weft {

// Degrees below do not count the rank itself.
enum class WeightRule : std::uint8_t {
  uniform,              // w_ij = w_ii = 1/(in-degree(i) + 1): row-stochastic
  metropolis_hastings,  // w_ij = 1/(1 + max(degree(i), degree(j))), w_ii = the rest: doubly
                        // stochastic
  push_uniform,         // w_ij = w_jj = 1/(out-degree(j) + 1): column-stochastic
};

// "uniform", "metropolis_hastings", "push_uniform", and back.
[[nodiscard]] std::string_view name(WeightRule rule);
Result<WeightRule> weight_rule(std::string_view name);

// The graph's edges under the rule; the name stays. Metropolis–Hastings needs every edge to have
// its reverse, and says which edge has none.
Result<Graph> reweighted(const Graph& graph, WeightRule rule);

}  // namespace weft
