// The allreduce algorithms behind plan_allreduce, each for two ranks or more. Internal.
// All give every rank the same bits: a block is combined in one defined order wherever it is
// combined.
#pragma once

#include <string>

#include "scheduler/plan/plan.h"

namespace weft {

[[nodiscard]] Planned plan_allreduce_direct(Rank rank, int size, Shape shape, std::string reason);
[[nodiscard]] Planned plan_allreduce_split(Rank rank, int size, Shape shape, std::string reason);
[[nodiscard]] Planned plan_allreduce_ring(Rank rank, int size, Shape shape, std::string reason);
[[nodiscard]] Planned plan_allreduce_halving_doubling(Rank rank, int size, Shape shape,
                                                      std::string reason);

}  // namespace weft
