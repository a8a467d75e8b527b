// Weight rules compute the weights of a graph's edges from the degrees. A caller that has weights
// of its own uses Graph::from_edges or Graph::from_matrix.
#pragma once

#include <weft/graph/digraph.h>

#include <string_view>

namespace WEFT_PUBLIC weft {

// In these formulas a degree does not count the rank itself.
enum class WeightRule : std::uint8_t {
  uniform,              // w_ij = w_ii = 1/(in-degree(i) + 1): row-stochastic
  metropolis_hastings,  // w_ij = 1/(1 + max(degree(i), degree(j))), w_ii = the rest: doubly
                        // stochastic
  push_uniform,         // w_ij = w_jj = 1/(out-degree(j) + 1): column-stochastic
};

// "uniform", "metropolis_hastings", "push_uniform", and back.
[[nodiscard]] std::string_view name(WeightRule rule);
Result<WeightRule> weight_rule(std::string_view name);

// The same edges with the weights of the rule, and the same name. Metropolis–Hastings needs the
// reverse of every edge; the error names an edge that has none.
Result<Graph> reweighted(const Graph& graph, WeightRule rule);

}  // namespace weft
