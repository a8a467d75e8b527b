// neighbor_allgather: output block k is what in-edge k sent. The blocks may differ in size, so the
// caller gives the output's partition. An output that is also the input cannot exist (it does not
// have the input's size), so the shape changes nothing.
#include <fmt/format.h>

#include "scheduler/plan/builder.h"

namespace weft {

Plan plan_neighbor_allgather(const View& view, Shape /*shape*/) {
  PlanBuilder plan("neighbor_allgather", "direct", view);
  const std::vector<std::uint32_t> in_edges = every_edge(view.in);
  plan.partition(Buffer::input, Partition::Kind::even, 1);
  plan.partition(Buffer::output, Partition::Kind::given,
                 static_cast<std::uint32_t>(in_edges.size()));
  if (!view.out.empty()) plan.send(block_of(Buffer::input, 0U), every_edge(view.out));
  for (const std::uint32_t edge : in_edges) {
    plan.combine(Combining::copy, block_of(Buffer::output, edge), {message(edge)});
  }
  return std::move(plan).finish(
      fmt::format("one phase copies from each of {} in-neighbors", view.in.size()));
}

}  // namespace weft
