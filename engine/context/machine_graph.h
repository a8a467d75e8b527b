// machine_graph: the machine graph of hierarchical operations. It tells with which machines a call
// has edges, and their weights. Internal to the module.
#pragma once

#include <weft/graph.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/execute/execute.h"
#include "engine/request/request.h"
#include "topology/rails/rails.h"

namespace weft {

// Belongs to the holder of the lane's token.
class MachineGraph {
 public:
  // The edges of one call: the machines, ascending, and their weights.
  struct Step {
    double self = 1.0;
    std::vector<NeighborWeight> in, out;
  };

  [[nodiscard]] const std::optional<Graph>& graph() const { return graph_; }
  void set(const Graph& graph, bool weighted) {
    graph_ = graph;
    weighted_ = weighted;
  }

  // The edges of a call. Weights choose among machines as those of neighbor_allreduce do among
  // ranks. `own` is this rank's machine, one of `machines`. The step is valid until the next
  // bind().
  [[nodiscard]] Result<const Step*> bind(std::string_view what, const NeighborWeights& weights,
                                         Rank own, int machines);
  // A number for the set of machines with which the bound step has edges. It is part of the plan's
  // key: a plan names ranks, and machines may have different numbers of ranks, so each set of
  // machines needs a plan of its own.
  [[nodiscard]] std::uint32_t number_of_step();
  // Appends to `weights`, for each rank, the weight of the edge with the rank's machine. Ranks of
  // machine `own` get weight 1.
  static void weigh_edges(std::span<PeerConnection* const> ranks,
                          std::span<const NeighborWeight> machines, const Layout& layout, int own,
                          std::vector<double>& weights);

 private:
  Status use_graph(std::string_view what, Rank own);

  std::optional<Graph> graph_;
  bool weighted_ = false;
  Step step_;
  std::vector<Rank> set_;  // the in- and out-machines of the step; scratch
  std::map<std::vector<Rank>, std::uint32_t> sets_;  // the numbers of the sets
  std::uint32_t next_set_ = 0;
};

}  // namespace weft
