// critical: what the time was spent on. Internal to the module.
#pragma once

#include <vector>

#include "scheduler/simulate/play.h"

namespace weft::simulator {

// The chain of computations and transfers that ends when `rank` does, in the run of `play`. One
// entry for each kind and link, the longest first.
[[nodiscard]] std::vector<Cause> critical_path(const Play& play, const Programs& programs,
                                               Rank rank);

}  // namespace weft::simulator
