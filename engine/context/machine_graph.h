// machine_graph: the graph of machines, for hierarchical operations: which machines a call has edges
// with, and their weights. Internal to the module.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/execute/execute.h"
#include "engine/request/request.h"
#include "topology/graph/graph.h"
#include "topology/rails/rails.h"

namespace weft {

// Belongs to the holder of the lane's token.
class MachineGraph {
 public:
  // The machines of one call, ascending, with their weights.
  struct Step {
    double self = 1.0;
    std::vector<NeighborWeight> in, out;
  };

  [[nodiscard]] const std::optional<Graph>& graph() const { return graph_; }
  void set(Graph graph, bool weighted) {
    graph_ = std::move(graph);
    weighted_ = weighted;
  }

  // The machines of this call, as neighbor_allreduce has the ranks of a call. `own` of `machines` is
  // this rank's. The step stays valid until the next bind().
  [[nodiscard]] Result<const Step*> bind(std::string_view what, const NeighborWeights& weights,
                                         Rank own, int machines);
  // A number for the set of machines that the bound step has edges with. A plan names ranks, and
  // machines may have different numbers of ranks, so plans are kept by that set.
  [[nodiscard]] std::uint32_t number_of_step();
  // Gives each edge between ranks the weight of the edge between their machines. Edges inside machine
  // `own` have weight 1.
  static void weigh_edges(std::span<Contact* const> ranks, std::span<const NeighborWeight> machines,
                          const Layout& layout, int own, std::vector<double>& weights);

 private:
  Status use_graph(std::string_view what, Rank own);

  std::optional<Graph> graph_;
  bool weighted_ = false;
  Step step_;
  std::vector<Rank> set_;  // the machines of the step, in and out; scratch
  std::map<std::vector<Rank>, std::uint32_t> sets_;  // that plans were made for, with their numbers
  std::uint32_t next_set_ = 0;
};

}  // namespace weft
