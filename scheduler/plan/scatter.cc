// scatter: each rank copies its block of the root's input from where it is. Every byte has to leave
// the root whatever the way, so a tree would only carry it more often.
#include <fmt/format.h>

#include <utility>

#include "scheduler/plan/builder.h"

namespace weft {
namespace {

// The root's own copy comes last, when the others are already busy.
void plan_root(PlanBuilder& plan, const View& view, Shape shape) {
  plan.partition(Buffer::input, Partition::Kind::given, static_cast<std::uint32_t>(view.size));
  for (const Rank other : others_clockwise(view.rank, view.size)) {
    plan.send(block_of(Buffer::input, other), {edge_to(view.out, other)});
  }
  if (shape.in_place) return;
  plan.combine(Combining::copy, block_of(Buffer::output, 0U),
               {local(block_of(Buffer::input, view.rank))});
}

}  // namespace

Planned plan_scatter(Rank rank, int size, Rank root, Shape shape) {
  invariant(root >= 0, "a root is not negative");
  invariant(root < size, "a root is below the size");
  View view{rank, size, {root}, {}};
  if (rank == root) view = {rank, size, {}, complete_view(rank, size).out};
  PlanBuilder plan("scatter", "direct", view);
  plan.partition(Buffer::output, Partition::Kind::even, 1);
  if (rank == root) {
    plan_root(plan, view, shape);
  } else {
    plan.combine(Combining::copy, block_of(Buffer::output, 0U), {message(0)});
  }
  return {std::move(view), std::move(plan).finish(fmt::format(
                               "each of {} others copies its block from the root", size - 1))};
}

}  // namespace weft
