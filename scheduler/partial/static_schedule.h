// static_schedule: groups that each worker computes alone (section 4.2, Fig. 10).
// Internal to the module; others include partial.h.
#pragma once

#include <weft/graph/schedule.h>

#include <cstdint>
#include <span>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

inline constexpr std::uint64_t kStaticPeriod = 4;

// The group of a rank in an iteration, in ascending order; one that has only this rank synchronizes
// with nobody. Ranks count machine by machine, and `locals` has how many each machine has. The period is
// kStaticPeriod iterations, of M machines, where l is the local rank and L the ranks of its machine:
//
//   0     l = 0 of all machines together; the others in pairs from the top (L-1 with L-2, …), and
//         l = 1 alone if L is even
//   1, 3  all ranks of a machine
//   2     l = 0 with l = L-1; l = 1 with l = 1 of the opposite machine; the others alone.
//         L = 2: l = 0 alone. L = 1: l = 0 is the one that meets the opposite machine.
//
// The machine opposite to m is (m + M/2) mod M. If M is odd, the last machine has none, and the
// others are opposite to each other as if it were not there.
//
// No rank is in two groups of an iteration, and the groups of a period connect all ranks. With
// M = L = 4 this is the paper's figure. invalid_argument: less than 1 machine, or one with less than 1 rank,
// or more than kMostRanks ranks, or a rank outside them.
[[nodiscard]] Result<std::vector<Rank>> static_group(std::uint64_t iteration,
                                                     std::span<const int> locals, Rank rank);
// The same with equally many ranks on all machines.
[[nodiscard]] Result<std::vector<Rank>> static_group(std::uint64_t iteration, MachineShape shape,
                                                     Rank rank);

}  // namespace weft
