// Laps of `weft perf wire`: so many operations of one size, timed one by one at rank 0. Both sides
// run the same task at the same time.
#pragma once

#include <vector>

#include "tools/weft/wire/side.h"

namespace weft {

struct WireTask {
  WireOp op = WireOp::write;
  bool ping_pong = false;
  std::uint32_t depth = 1;
  std::uint32_t list = 1;
  std::uint32_t iterations = 0;
  std::uint64_t bytes = 0;
};

struct WireLap {
  double seconds = 0;       // from the first post to the last completion
  double peak_seconds = 0;  // per operation, in the best run of `depth` of them
  std::vector<double> us;   // of each operation; of a ping-pong half its round trip
};

// Rank 0's part.
Result<WireLap> lead_lap(WireSide& side, const WireTask& task);
// Rank 1's part, of about lap_ms; returns once rank 0 needs nothing of it any more.
Status follow_lap(WireSide& side, const WireTask& task, std::int64_t lap_ms);
// Before either side begins: what an earlier lap left must not look like an answer.
void prepare_lap(WireSide& side, const WireTask& task);

}  // namespace weft
