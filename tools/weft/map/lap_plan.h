// When the measuring of an edge has been long enough. Internal to the command.
#pragma once

#include <cstdint>

namespace weft {

// How often a message is sent over an edge while the other ranks wait for their turn: fewer times
// where that takes longer than `enough_ns`.
struct LapPlan {
  enum class Lap : std::uint8_t { warms_up, counts, none };
  static constexpr int kWarm = 3, kCounted = 15;
  static constexpr int kLeastCounted = 3;  // after one that warms up

  std::int64_t enough_ns = 0;
  // What the next one is.
  [[nodiscard]] Lap next(int warmed, int counted, std::int64_t spent_ns) const;
};

}  // namespace weft
