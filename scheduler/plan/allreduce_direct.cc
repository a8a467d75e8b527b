// allreduce, direct: everyone reads everyone's input in one phase. (n-1) M in per rank, one wait.
#include <utility>

#include "scheduler/plan/allreduce_algorithms.h"
#include "scheduler/plan/exchange.h"

namespace weft {

Planned plan_allreduce_direct(Rank rank, int size, Shape shape, std::string reason) {
  View view = complete_view(rank, size);
  PlanBuilder plan("allreduce", "direct", view);
  exchange(plan, view, shape, Combining::reduce, {Weight::Kind::scale, 0}, Weight::Kind::scale);
  return {std::move(view), std::move(plan).finish(std::move(reason))};
}

}  // namespace weft
