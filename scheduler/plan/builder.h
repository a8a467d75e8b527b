// builder: how planners write plans down. Internal to the module.
//
// A PlanBuilder appends steps to one Plan and is used up by finish(). It belongs to the planner's
// thread and checks what a planner could get wrong by itself (indices, order of hazards); what
// concerns several ranks is verify()'s business.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/plan/plan.h"

namespace weft {

class PlanBuilder {
 public:
  // Operation and algorithm are string literals: the plan keeps views of them.
  PlanBuilder(std::string_view operation, std::string_view algorithm, const View& view);

  void partition(Buffer buffer, Partition::Kind kind, std::uint32_t blocks);
  // Input and output in the same even blocks: what every reduction over all ranks uses.
  void partition_evenly(std::uint32_t blocks);

  // Appends a send and returns its step index, to be named as a hazard. Earlier edges are served
  // first.
  std::uint32_t send(Slice slice, const std::vector<std::uint32_t>& edges);
  void combine(Combining combining, Slice slice, const std::vector<Operand>& operands,
               const std::vector<std::uint32_t>& hazards = {});
  // What the edge carries should take this rail.
  void keep_to_rail(std::uint32_t edge, int rail);
  [[nodiscard]] Plan finish(std::string reason) &&;

 private:
  Plan plan_;
};

// The indices 0 … count-1: a send along every edge.
[[nodiscard]] std::vector<std::uint32_t> every_edge(const std::vector<Rank>& peers);
// The index of `peer` in an ascending list that contains it.
[[nodiscard]] std::uint32_t edge_to(const std::vector<Rank>& peers, Rank peer);
// A view with the same peers in both directions, sorted here; and the one of all other ranks.
[[nodiscard]] View symmetric_view(Rank rank, int size, std::vector<Rank> peers);
[[nodiscard]] View complete_view(Rank rank, int size);
// The view with its peers ascending, each once.
[[nodiscard]] View sorted(View view);
// The rank `hops` before `rank`, counted around a ring.
[[nodiscard]] Rank behind(Rank rank, int hops, int size);
// All other ranks, beginning with the next one: neighbors in time are then spread over the ranks,
// and not everybody's first read falls on rank 0.
[[nodiscard]] std::vector<Rank> others_clockwise(Rank rank, int size);

[[nodiscard]] Slice blocks_of(Buffer buffer, std::uint32_t first, std::uint32_t last);
[[nodiscard]] Slice block_of(Buffer buffer, std::uint32_t block);
// For blocks that are numbered by the ranks which own them.
[[nodiscard]] Slice block_of(Buffer buffer, Rank owner);

[[nodiscard]] Operand local(Slice slice, Weight weight = {});
[[nodiscard]] Operand message(std::uint32_t edge, Weight weight = {});
// `own` and one message of every in-edge, in ascending rank order, so that sums have the same bits
// in every run. Weight::Kind::edge names each edge's own weight; other kinds apply to all messages.
[[nodiscard]] std::vector<Operand> in_rank_order(const View& view, const Operand& own,
                                                 Weight::Kind messages);

}  // namespace weft
