// Fast messages are sent as often as a median needs, slow ones as often as the waiting ranks allow.
#include "tools/weft/map/lap_plan.h"

namespace weft {

LapPlan::Lap LapPlan::next(int warmed, int counted, std::int64_t spent_ns) const {
  const bool has_time = spent_ns < enough_ns;
  if (counted == 0 && (warmed == 0 || (warmed < kWarm && has_time))) return Lap::warms_up;
  if (counted < kLeastCounted || (counted < kCounted && has_time)) return Lap::counts;
  return Lap::none;
}

}  // namespace weft
