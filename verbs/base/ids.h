// The small integer names that every layer shares.
#pragma once

#include <cstdint>

namespace weft {

// A process (or, in tests, a thread) of the job: 0 … size-1.
using Rank = std::int32_t;
inline constexpr Rank kNoRank = -1;
// Where a rail may be named by its number: whichever is free.
inline constexpr int kAnyRail = -1;

// Counts the membership changes of a context; carried by every message so that a dead rank's late
// writes are recognized.
using Epoch = std::uint32_t;

}  // namespace weft
