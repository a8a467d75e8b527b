// lane_count: how many lanes a rank could have. Internal to the module.
#pragma once

#include <cstddef>
#include <span>

#include "engine/config/config.h"
#include "engine/context/machines.h"

namespace weft {

// The number that WEFT_LANES asks for. Without it half of the cores that the rank has, because
// callers compute beside the lanes: at most as many lanes as the rank has near interfaces, or four
// if it has fewer, because one lane sums more slowly than a fast interface receives. 1 if the rank
// is alone, or moves data only while callers wait. `cores`: those that the ranks of this machine
// share. Pure.
[[nodiscard]] std::size_t lanes_of(const Config& config, std::span<const RailRecord> rails,
                                   int ranks_here, int cores);

}  // namespace weft
