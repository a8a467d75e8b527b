// Properties of a graph's edges and weights. Pure functions, O(ranks + edges) each.
#pragma once

#include <weft/graph/digraph.h>

namespace WEFT_PUBLIC weft {

// A sum of weights counts as 1 if it differs by at most this much. Weights that were rounded to
// float thus still pass.
inline constexpr double kStochasticTolerance = 1e-6;

// All ranks have the same in-degree and the same out-degree.
[[nodiscard]] bool is_regular(const Graph& graph);
// Every edge has its reverse edge (of any weight).
[[nodiscard]] bool is_undirected(const Graph& graph);
// Every rank reaches every other along edges.
[[nodiscard]] bool is_strongly_connected(const Graph& graph);
[[nodiscard]] int max_in_degree(const Graph& graph);
[[nodiscard]] int max_out_degree(const Graph& graph);

// Ok, or an invalid_argument that names the first wrong row or column: "column 3 sums to 0.75".
Status check_row_stochastic(const Graph& graph, double tolerance = kStochasticTolerance);
Status check_column_stochastic(const Graph& graph, double tolerance = kStochasticTolerance);
Status check_doubly_stochastic(const Graph& graph, double tolerance = kStochasticTolerance);

[[nodiscard]] inline bool is_row_stochastic(const Graph& graph) {
  return check_row_stochastic(graph).ok();
}
[[nodiscard]] inline bool is_column_stochastic(const Graph& graph) {
  return check_column_stochastic(graph).ok();
}
[[nodiscard]] inline bool is_doubly_stochastic(const Graph& graph) {
  return check_doubly_stochastic(graph).ok();
}

}  // namespace weft
