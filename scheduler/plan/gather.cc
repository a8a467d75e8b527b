// gather: everybody's input to the root, which copies each block from where it is. Every byte has
// to come to the root whatever the way, so a tree would only carry it more often.
#include <fmt/format.h>

#include <utility>

#include "scheduler/plan/builder.h"

namespace weft {
namespace {

void plan_root(PlanBuilder& plan, const View& view, Shape shape) {
  plan.partition(Buffer::output, Partition::Kind::given, static_cast<std::uint32_t>(view.size));
  if (!shape.in_place) {
    plan.combine(Combining::copy, block_of(Buffer::output, view.rank),
                 {local(block_of(Buffer::input, 0U))});
  }
  for (const Rank other : others_clockwise(view.rank, view.size)) {
    plan.combine(Combining::copy, block_of(Buffer::output, other),
                 {message(edge_to(view.in, other))});
  }
}

}  // namespace

Planned plan_gather(Rank rank, int size, Rank root, Shape shape) {
  invariant(root >= 0, "a root is not negative");
  invariant(root < size, "a root is below the size");
  View view{rank, size, {}, {root}};
  if (rank == root) view = {rank, size, complete_view(rank, size).in, {}};
  PlanBuilder plan("gather", "direct", view);
  plan.partition(Buffer::input, Partition::Kind::even, 1);
  if (rank == root) {
    plan_root(plan, view, shape);
  } else {
    plan.send(block_of(Buffer::input, 0U), {0});
  }
  return {std::move(view),
          std::move(plan).finish(fmt::format("the root copies from each of {} others", size - 1))};
}

}  // namespace weft
