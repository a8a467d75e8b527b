// The small integer names that every layer shares, beside Rank.
#pragma once

#include <weft/status.h>

#include <cstdint>

namespace weft {

// Where a rail may be named by its number: whichever is free.
inline constexpr int kAnyRail = -1;

// Counts the membership changes of a context; carried by every message so that a dead rank's late
// writes are recognized.
using Epoch = std::uint32_t;

}  // namespace weft
