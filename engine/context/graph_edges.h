// graph_edges: the context's graph as this rank sees it, and how the peers and weights of a
// neighbor operation are bound: to the graph's edges, to some of them, or to edges of one call.
// Internal to the module.
#pragma once

#include <span>
#include <vector>

#include "engine/config/config.h"
#include "engine/context/peers.h"
#include "engine/lane/lane.h"
#include "engine/request/request.h"
#include "topology/graph/graph.h"

namespace weft {

// Belongs to the holder of the lane's token.
class GraphEdges {
 public:
  // `config` names the rank and the size of the job.
  GraphEdges(const Config& config, Peers& peers, Graph graph)
      : config_(config), peers_(peers), graph_(std::move(graph)) {}

  [[nodiscard]] const Graph& graph() const { return graph_; }
  // `weighted`: the graph's weights count, else uniform ones. Operations that were bound before keep
  // their peers and weights only until then: none may run.
  void set(Graph graph, bool weighted);

  // Fills in the peers of the graph.
  [[nodiscard]] Status bind(Invocation& invocation);
  // Fills in peers, weights and the self weight of a neighbor_allreduce.
  [[nodiscard]] Status bind(Invocation& invocation, const NeighborWeights& weights);
  // Gives an invocation that names_all() bound before the weights of another call, if these are for
  // the same ranks in the same order. False: bind it anew, which also finds what is wrong.
  [[nodiscard]] static bool rebind(Invocation& invocation, const NeighborWeights& weights);

 private:
  Status connect();
  Status bind_pull(Invocation& invocation, std::span<const NeighborWeight> sources);
  Status bind_push(Invocation& invocation, std::span<const NeighborWeight> targets);
  Status bind_edges_of_call(Invocation& invocation, const NeighborWeights& weights);
  Status bind_side(std::span<const NeighborWeight> list, const char* what,
                   std::vector<Contact*>& peers, std::vector<double>& values);

  const Config& config_;
  Peers& peers_;
  Graph graph_;
  bool weighted_ = false;
  bool is_connected_ = false;       // at the first operation on the graph
  std::vector<Contact*> in_, out_;  // of the graph
  std::vector<double> weights_;     // receive weights, by in-edge
  double self_weight_ = 1.0;
  std::vector<NeighborWeight> sorted_;  // scratch of bind_side()
};

}  // namespace weft
