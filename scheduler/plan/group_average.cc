// group_average: the mean over a group (Prague's partial all-reduce; Luo et al., 2020, section 4)
// is an allreduce among its members. Planned by places in the group, so groups that change at every
// step share a plan.
#include <utility>

#include "scheduler/plan/plan.h"

namespace weft {

Planned plan_group_average(int place, int size, std::size_t bytes, Shape shape, Bits bits) {
  Planned planned =
      plan_allreduce(place, size, bytes, shape, AllreduceAlgorithm::automatic, {}, bits);
  planned.plan.operation = "group_average";
  return planned;
}

}  // namespace weft
