// alike: whether ranks r and r + p do the same, shifted by p. Internal to the module.
//
// Suppose that plans depend only on distances between ranks, and that the machines look the same
// from every p-th rank on. Then every p-th rank has the same history. The simulator runs only one
// group of p ranks. A message of this group to another group comes back as the message that the
// other group would send. A ring of 10,000 ranks exchanges 200 million messages, but costs only as
// much as its 20,000 phases.
#pragma once

#include <string>

#include "scheduler/simulate/simulate.h"

namespace weft::simulator {

struct Alike {
  int ranks = 1;    // ranks of a group; the number of all ranks if none are alike
  std::string why;  // why ranks are alike or not
};

// Compares the plans of all ranks. If that would take too long, it compares those of a sample
// spread over all ranks; `why` says which was done.
[[nodiscard]] Alike find_alike(const SimulatedJob& job, const SimulateOptions& options);

}  // namespace weft::simulator
