// alike: whether ranks r and r + p do the same, shifted. Internal to the module.
//
// Where plans only know distances around the ring of ranks, and the machines, too, look the same
// from every p-th rank on, every p-th rank has the same history. One group of p ranks is then
// simulated, whose messages to other groups come back as those of the others. So a ring of 10,000
// ranks, which exchanges 200 million messages, costs as much as its 20,000 phases.
#pragma once

#include <string>

#include "scheduler/simulate/simulate.h"

namespace weft::simulator {

struct Alike {
  int ranks = 1;    // of a group; all: nothing is alike
  std::string why;  // or why not
};

// Plans are compared for all ranks, or, where that took too long, for ranks spread over all; `why`
// says which.
[[nodiscard]] Alike find_alike(const SimulatedJob& job, const SimulateOptions& options);

}  // namespace weft::simulator
