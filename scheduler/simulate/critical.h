// critical: what the time was spent on. Internal to the module.
#pragma once

#include <vector>

#include "scheduler/simulate/play.h"

namespace weft::simulator {

// The chain of works and transfers that ends when `rank` does, from the run that `play` made;
// longest first. One entry for each kind and link.
[[nodiscard]] std::vector<Cause> critical_path(const Play& play, const Programs& programs,
                                               Rank rank);

}  // namespace weft::simulator
