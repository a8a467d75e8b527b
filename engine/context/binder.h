// binder: turns a Request into an BoundCall that the lane can run. The Binder checks the operands,
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
        machine_graph_(machine_graph),
        allreduce_table_(AllreduceTable::parse(config.allreduce)) {}

  // Fills a cleared bound call. An error names the operation and what is wrong with its operands.
  [[nodiscard]] Status bind(const Request& request, BoundCall& bound_call);
  // The same for the rest of a hierarchical_neighbor_allreduce whose input is the machine's mean.
  [[nodiscard]] Status bind_behind_mean(const Request& request, BoundCall& bound_call);
  // Any thread.
  [[nodiscard]] static Status check_algorithm(const Request& request, Bits usual);
  // The exchange of encoded tensors (compressed.h): binds `moves`, an operation that moves their bytes, in
  // the place of `request`. Headers have the operation and the compression of the latter.
  [[nodiscard]] Status bind_encoded(const Request& moves, const Request& request,
                                    BoundCall& bound_call);
  // The same for a neighbor_allreduce, whose tensors have so many bytes each. Gives this rank's weight,
  // and those of the in-neighbors.
  [[nodiscard]] Status bind_encoded_neighbors(const Request& request, std::size_t bytes,
                                              BoundCall& bound_call, std::vector<Term>& weights);
  // The checks of an allreduce whose algorithm is chosen. Any thread.
  [[nodiscard]] static Status check_allreduce_operands(const Request& request);
  // Whether Weft chooses the algorithm of an allreduce of so many bytes. Any thread.
  [[nodiscard]] bool chooses(AllreduceAlgorithm asked, std::size_t bytes) const {
    return asked == AllreduceAlgorithm::automatic && allreduce_table_.ok() &&
           allreduce_table_->at(bytes) == AllreduceAlgorithm::automatic;
  }
  // Whether an allreduce of so many bytes can go by the algorithm that was asked for. All ranks find the
  // same.
  [[nodiscard]] Status check_choice(AllreduceAlgorithm asked, Bits bits, std::size_t bytes);
  // The connection to another rank. An error names the operation `what`.
  [[nodiscard]] Result<PeerConnection*> other_rank(std::string_view what, Rank rank);

 private:
  Status bind_operation(const Request& request, BoundCall& bound_call);
  // bind_neighbor.cc
  Status neighbor_allreduce(const Request& request, BoundCall& bound_call);
  Status neighbor_allgather(const Request& request, BoundCall& bound_call);
  // bind_all.cc
  Status allreduce(const Request& request, BoundCall& bound_call);
  Status reduce(const Request& request, BoundCall& bound_call);
  Status broadcast(const Request& request, BoundCall& bound_call);
  Status barrier(BoundCall& bound_call);
  struct Choice {
    AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic;
    const Layout* layout = nullptr;
  };
  Result<Choice> choose(AllreduceAlgorithm asked, Bits bits, std::size_t bytes);
  // bind_parts.cc
  Status allgather(const Request& request, BoundCall& bound_call);
  Status reduce_scatter(const Request& request, BoundCall& bound_call);
  Status gather(const Request& request, BoundCall& bound_call);
  Status scatter(const Request& request, BoundCall& bound_call);
  Status alltoall(const Request& request, BoundCall& bound_call);
  // bind_machines.cc
  Status hierarchical_neighbor_allreduce(const Request& request, BoundCall& bound_call,
                                         MeanInput input = MeanInput::of_rank);
  Status local_allreduce(const Request& request, BoundCall& bound_call);
  // bind_some.cc
  Status send(const Request& request, BoundCall& bound_call);
  Status recv(const Request& request, BoundCall& bound_call);
  Status pair_average(const Request& request, BoundCall& bound_call);
  Status group_average(const Request& request, BoundCall& bound_call);

  void use(const CachedPlan& plan, BoundCall& bound_call);
  template <typename Make>
  Status plan_everybody(BoundCall& bound_call, const PlanKey& key, Make&& make) {
    WEFT_ASSIGN(const CachedPlan* plan, plans_.get(key, make));
    use(*plan, bound_call);
    return {};
  }
  Status plan_neighbors(BoundCall& bound_call, Collective collective, bool in_place);
  static Status bind_reduction(std::string_view what, Call& call, DataType type, ReduceOp op,
                               int ranks);
  Status check_root(std::string_view what, Rank root) const;
  Status give_parts(std::string_view what, std::vector<Range>& parts, DataType type,
                    std::span<const std::size_t> counts, std::size_t each) const;
  Status place_in_group(std::span<const Rank> ranks, int& place);

  const Config& config_;
  PlanCache& plans_;
  Peers& peers_;
  GraphEdges& edges_;
  MachineTable& machines_;
  MachineGraph& machine_graph_;
  const Result<AllreduceTable> allreduce_table_;
  std::vector<Rank> group_;  // the ranks of a group, ascending; scratch
};

}  // namespace weft
