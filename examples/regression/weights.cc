// Both look at every edge once.
#include "examples/regression/weights.h"

#include <cmath>
#include <string>
#include <vector>

namespace regression {

weft::Status check_symmetric(const weft::Graph& graph) {
  for (const weft::Edge& edge : graph.edges()) {
    if (std::abs(graph.weight(edge.from, edge.to) - edge.weight) > weft::kStochasticTolerance) {
      const std::string from = std::to_string(edge.from);
      const std::string to = std::to_string(edge.to);
      return {weft::Code::invalid_argument, "graph " + graph.name() + ": the weight of edge " +
                                                from + " -> " + to + " is not that of edge " + to +
                                                " -> " + from};
    }
  }
  return {};
}

weft::Result<weft::Graph> halfway(const weft::Graph& graph) {
  std::vector<weft::Edge> edges = graph.edges();
  for (weft::Edge& edge : edges) edge.weight /= 2;
  std::vector<double> self_weights = graph.self_weights();
  for (double& weight : self_weights) weight = (1 + weight) / 2;
  return weft::Graph::from_edges(graph.size(), edges, self_weights, graph.name() + ", (I + W)/2");
}

}  // namespace regression
