// What an exchange costs the threads of its ranks: links carry bytes, lanes combine them. Internal to
// the command.
#pragma once

#include "topology/rails/rails.h"

namespace weft {

// Of the rank whose lanes take longest.
struct CombiningWork {
  int lanes = 1;  // of a rank, that have a part in an exchange
  Rank rank = 0;
  double bytes = 0;        // of all terms that the rank reads, its own input among them
  double gbyte_per_s = 0;  // rate of a lane that combines
  double us = 0;
};

// `lanes`, or one if a message is too small to be cut into so many stripes.
[[nodiscard]] int lanes_of(double bytes, int lanes);

// The work of an exchange in which each rank combines its input and the messages of its in-neighbors.
// Terms of ranks of other machines are read at the rate of combining, terms of the same machine at
// that of its memory.
[[nodiscard]] CombiningWork lane_work(const Cluster& cluster, const Graph& graph,
                                      const Placement& placement, double bytes, int lanes);

// The cluster as several lanes of each rank see it: each reads its part of another rank's memory.
[[nodiscard]] Cluster with_lanes(Cluster cluster, int lanes);

}  // namespace weft
