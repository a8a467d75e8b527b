// lane_options: how the lanes of a context are set up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/config/config.h"
#include "engine/job/interfaces.h"
#include "engine/lane/lane.h"

namespace weft {

// The ranks on this machine, and the cores that they share.
[[nodiscard]] int ranks_here(const Config& config);
[[nodiscard]] int cores_here(const Config& config);

// The options of the first lane. `context`: the context's number. How its callers wait does not depend
// on side lanes, which work during large operations only: a caller that yielded for as long as on a
// core that ranks share would take half as much processor time again for operations on one lane.
[[nodiscard]] LaneOptions lane_options(const Config& config, std::uint16_t context, LogVoice voice,
                                       const OpenedInterfaces& opened);
// Makes them the options of side lane `number` of `lanes`. `used`: the indices of the rails that the rank
// uses. `nodes`: the NUMA nodes of all its rails.
void make_side_lane(LaneOptions& options, const Config& config, std::size_t number,
                    std::size_t lanes, std::span<const int> used, std::span<const int> nodes);

}  // namespace weft
