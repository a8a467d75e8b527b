// builder: how planners write plans. Internal to the module.
//
// A PlanBuilder appends steps to one Plan; finish() ends it. It belongs to the planner's thread. It
// checks mistakes that concern one rank alone (indices, order of hazards). verify() checks what
// concerns several ranks.
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
  // Cuts input and output into the same even blocks, as every reduction over all ranks does.
  void partition_evenly(std::uint32_t blocks);

  // Appends a send and returns its step index, by which hazards name it. Edges are served in the
  // order given. `taken`: what the receivers do with the message.
  std::uint32_t send(Slice slice, const std::vector<std::uint32_t>& edges,
                     Combining taken = Combining::copy);
  void combine(Combining combining, Slice slice, const std::vector<Operand>& operands,
               const std::vector<std::uint32_t>& hazards = {});
  // The same where the result is whole (Step::is_whole).
  void combine_whole(Combining combining, Slice slice, const std::vector<Operand>& operands);
  // Asks for a rail for the messages of this edge.
  void keep_to_rail(std::uint32_t edge, int rail);
  [[nodiscard]] Plan finish(std::string reason) &&;

 private:
  Plan plan_;
};

// The indices 0 … count-1: a send along every edge.
[[nodiscard]] std::vector<std::uint32_t> every_edge(const std::vector<Rank>& peers);
// The index of `peer` in an ascending list that contains it.
[[nodiscard]] std::uint32_t edge_to(const std::vector<Rank>& peers, Rank peer);
// A view with the same peers in both directions, which need not be sorted; and the view of all
// ranks.
[[nodiscard]] View symmetric_view(Rank rank, int size, std::vector<Rank> peers);
[[nodiscard]] View complete_view(Rank rank, int size);
// The view with its peers ascending, each once.
[[nodiscard]] View sorted(View view);
// The rank `hops` before `rank`, counted around a ring.
[[nodiscard]] Rank behind(Rank rank, int hops, int size);
// All other ranks, beginning with the next one. If all ranks read in this order, their first reads
// are spread over the ranks instead of all falling on rank 0.
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
