// lane_count: how many lanes a rank could have.
#pragma once

#include <cstddef>
#include <span>

#include "engine/config/config.h"
#include "engine/job/machines.h"

namespace weft {

// The number that WEFT_LANES asks for, else automatic_lanes(). 1 if the rank is alone, or moves data
// only while callers wait; and without rails in a process that uses GPUs, which combine a tensor in
// one launch, not in one for each lane. `cores`: those that the ranks of this machine share. Pure.
[[nodiscard]] std::size_t lanes_of(const Config& config, std::span<const RailRecord> rails,
                                   int ranks_here, int cores, bool uses_gpus = false);

}  // namespace weft
