// graph_edges: the context's graph, and the binding of peers and weights of a neighbor operation.
// A call uses all edges of the graph, some of them, or edges of its own. Internal to the module.
#pragma once

#include <weft/graph.h>

#include <span>
#include <vector>

#include "engine/config/config.h"
#include "engine/context/peers.h"
#include "engine/lane/lane.h"
#include "engine/request/request.h"

namespace weft {

// Belongs to the holder of the lane's token.
class GraphEdges {
 public:
  // `config` names the rank and the size of the job.
  GraphEdges(const Config& config, Peers& peers, const Graph& graph)
      : config_(config), peers_(peers), graph_(graph) {}

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] bool is_weighted() const { return weighted_; }
  // If `weighted`, neighbor operations use the graph's weights, else uniform ones. No operation
  // that was bound before may be running, because its peers and weights become invalid.
  void set(const Graph& graph, bool weighted);

  // Fills in the peers of the graph.
  [[nodiscard]] Status bind(BoundCall& bound_call);
  // Fills in peers, weights and the self weight of a neighbor_allreduce.
  [[nodiscard]] Status bind(BoundCall& bound_call, const NeighborWeights& weights);
  // Replaces the weights of an bound call that was bound to the edges of one call (names_all()).
  // The new weights must be for the same ranks in the same order, and finite. Else returns false,
  // and bind() must be called, which also reports errors.
  [[nodiscard]] static bool rebind(BoundCall& bound_call, const NeighborWeights& weights);

 private:
  Status connect();
  Status bind_pull(BoundCall& bound_call, std::span<const NeighborWeight> sources);
  Status bind_push(BoundCall& bound_call, std::span<const NeighborWeight> targets);
  Status bind_edges_of_call(BoundCall& bound_call, const NeighborWeights& weights);
  Status bind_side(std::span<const NeighborWeight> list, const char* what,
                   std::vector<PeerConnection*>& peers, std::vector<double>& values);

  const Config& config_;
  Peers& peers_;
  Graph graph_;
  bool weighted_ = false;
  bool is_connected_ = false;              // true from the first operation on the graph
  std::vector<PeerConnection*> in_, out_;  // the graph's neighbors of this rank
  std::vector<double> weights_;            // receive weights, by in-edge
  double self_weight_ = 1.0;
  std::vector<NeighborWeight> sorted_;  // scratch of bind_side()
};

}  // namespace weft
