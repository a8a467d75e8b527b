// How many lanes a rank should have: what `weft predict` and `weft map` recommend. Internal to the
// commands.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "topology/cluster/cluster.h"

namespace weft {

// The cores that a machine has for each of its ranks, on the machine with the fewest. 0: no machine
// tells how many it has.
[[nodiscard]] int cores_per_rank(const Cluster& cluster);
// The most lanes that can have a part in an operation of so many bytes: one for each core, and for
// each stripe of kLeastStripeBytes.
[[nodiscard]] int most_lanes(const Cluster& cluster, std::size_t bytes);

struct LaneAdvice {
  int lanes = 1;  // 1: more lanes save little, or there can be no more
  double us = 0;  // what the operation takes with them
};
// Asks `us_of` what 2, 4, 8, … and `most` lanes take. Recommends the fewest that take hardly longer
// than the best of them, if they save at least a tenth of `one_us`. An error is that of `us_of`.
[[nodiscard]] Result<LaneAdvice> advise_lanes(double one_us, int most,
                                              const std::function<Result<double>(int)>& us_of);

// "(a rank has 8 cores)", or that nothing tells it.
[[nodiscard]] std::string cores_text(const Cluster& cluster);

}  // namespace weft
