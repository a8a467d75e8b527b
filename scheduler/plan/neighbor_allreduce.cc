// neighbor_allreduce: y = w_ii x + sum over in-edges of w_ij x_j, in one phase.
#include <fmt/format.h>

#include "scheduler/plan/exchange.h"

namespace weft {

Plan plan_neighbor_allreduce(const View& view, Shape shape) {
  PlanBuilder plan("neighbor_allreduce", "direct", view);
  exchange(plan, view, shape, Combining::weighted, {Weight::Kind::self, 0}, Weight::Kind::edge);
  return std::move(plan).finish(fmt::format(
      "one phase reads each of {} in-neighbors once, {} out-neighbors read us{}", view.in.size(),
      view.out.size(), shape.in_place && !view.out.empty() ? "; in place, so from a copy" : ""));
}

}  // namespace weft
