// binder: turns a Request into an Invocation that the lane can run. The Binder checks the operands,
// finds the peers and the weights of the call, and gets a plan of the right shape. There is a file
// for each family of operations: bind_neighbor.cc, bind_all.cc, bind_parts.cc, bind_machines.cc and
// bind_some.cc. Internal to the module.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/config/config.h"
#include "engine/context/graph_edges.h"
#include "engine/context/machine_graph.h"
#include "engine/context/plan_cache.h"
#include "engine/job/job.h"

namespace weft {

// Belongs to the holder of the lane's token.
class Binder {
 public:
  Binder(const Config& config, PlanCache& plans, Peers& peers, GraphEdges& edges,
         MachineTable& machines, MachineGraph& machine_graph)
      : config_(config),
        plans_(plans),
        peers_(peers),
        edges_(edges),
        machines_(machines),
        machine_graph_(machine_graph) {}

  // Fills a cleared invocation. An error names the operation and what is wrong with its operands.
  [[nodiscard]] Status bind(const Request& request, Invocation& invocation);
  // The same for the rest of a hierarchical_neighbor_allreduce whose input is the machine's mean.
  [[nodiscard]] Status bind_behind_mean(const Request& request, Invocation& invocation);
  // The checks of an allreduce whose algorithm is chosen. Any thread.
  [[nodiscard]] static Status check_allreduce_operands(const Request& request, int size);

 private:
  Status bind_operation(const Request& request, Invocation& invocation);
  // bind_neighbor.cc
  Status neighbor_allreduce(const Request& request, Invocation& invocation);
  Status neighbor_allgather(const Request& request, Invocation& invocation);
  // bind_all.cc
  Status allreduce(const Request& request, Invocation& invocation);
  Status reduce(const Request& request, Invocation& invocation);
  Status broadcast(const Request& request, Invocation& invocation);
  Status barrier(Invocation& invocation);
  // bind_parts.cc
  Status allgather(const Request& request, Invocation& invocation);
  Status reduce_scatter(const Request& request, Invocation& invocation);
  Status gather(const Request& request, Invocation& invocation);
  Status scatter(const Request& request, Invocation& invocation);
  Status alltoall(const Request& request, Invocation& invocation);
  // bind_machines.cc
  Status hierarchical_neighbor_allreduce(const Request& request, Invocation& invocation,
                                         MeanInput input = MeanInput::of_rank);
  Status local_allreduce(const Request& request, Invocation& invocation);
  // bind_some.cc
  Status send(const Request& request, Invocation& invocation);
  Status recv(const Request& request, Invocation& invocation);
  Status pair_average(const Request& request, Invocation& invocation);
  Status group_average(const Request& request, Invocation& invocation);

  void use(const CachedPlan& plan, Invocation& invocation);
  template <typename Make>
  Status plan_everybody(Invocation& invocation, const PlanKey& key, Make&& make) {
    WEFT_ASSIGN(const CachedPlan* plan, plans_.get(key, make));
    use(*plan, invocation);
    return {};
  }
  Status plan_neighbors(Invocation& invocation, Collective collective, bool in_place);
  static Status bind_reduction(std::string_view what, Call& call, DataType type, ReduceOp op,
                               int ranks);
  Status check_root(std::string_view what, Rank root) const;
  Status give_parts(std::string_view what, std::vector<Range>& parts, DataType type,
                    std::span<const std::size_t> counts, std::size_t each) const;
  Result<Contact*> other_rank(std::string_view what, Rank rank);
  Status place_in_group(std::span<const Rank> ranks, int& place);

  const Config& config_;
  PlanCache& plans_;
  Peers& peers_;
  GraphEdges& edges_;
  MachineTable& machines_;
  MachineGraph& machine_graph_;
  std::vector<Rank> group_;  // the ranks of a group, ascending; scratch
};

}  // namespace weft
