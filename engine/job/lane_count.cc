// lane_count: see the header.
#include "engine/job/lane_count.h"

#include <algorithm>

#include "scheduler/stripes/stripes.h"

namespace weft {
namespace {

static_assert(Config::kMostLanes == kMostLanes);

int near_rails(std::span<const RailRecord> rails) {
  if (rails.empty()) return 0;
  const int nearest = std::ranges::min(rails, {}, &RailRecord::far).far;
  return static_cast<int>(std::ranges::count(rails, nearest, &RailRecord::far));
}

}  // namespace

std::size_t lanes_of(const Config& config, std::span<const RailRecord> rails, int ranks_here,
                     int cores, bool uses_gpus) {
  if (config.size == 1 || config.progress == ProgressMode::waiter) return 1;
  if (config.lanes != 0) return static_cast<std::size_t>(config.lanes);
  if (uses_gpus && rails.empty()) return 1;
  return static_cast<std::size_t>(automatic_lanes(near_rails(rails), ranks_here, cores));
}

}  // namespace weft
