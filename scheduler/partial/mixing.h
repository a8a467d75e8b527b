// mixing: how fast the groups of a law bring all workers to one value (section 3.3).
// Internal to the module; others include partial.h.
#pragma once

#include <weft/graph/digraph.h>
#include <weft/graph/schedule.h>

#include <cstdint>

#include "scheduler/partial/law.h"
#include "verbs/base/base.h"

namespace weft {

// W is the matrix of a round, in which every worker ends one iteration: the product of F^G over the
// groups G of the round, in their order. F^G averages the values of G and leaves the others as they
// are.
struct GroupMixing {
  // The largest eigenvalue, in size, of E[W'W] but that of the average. A round leaves of the
  // expected squared disagreement at most this part. The paper's condition is rho < 1.
  double rho = 0;
  int rounds = 0;        // over which the mean is taken
  bool is_exact = true;  // false: the rounds are a sample
  double groups = 0;     // of a round on average, without those of one worker
  double members = 0;    // of such a group on average
  Graph mean;            // E[W'W]; an edge is a pair of workers that influence each other
};

inline constexpr int kMostMixedRanks = 1024;
inline constexpr int kSampledRounds = 256;

// Of static groups: exact, over a period. Of random and smart ones: over kSampledRounds rounds of
// equally fast workers that ask in random order, drawn from `seed`. As the law treats machines alike,
// and the ranks of a machine, too, E[W'W] has only three different elements: on the diagonal, inside a
// machine, between machines. Each is the mean over all elements of its kind, so a few hundred rounds
// give rho within a few percent. The ranks count machine by machine. invalid_argument: a shape with
// less than 1 machine or rank, or more than kMostMixedRanks ranks. O(rounds * ranks^2 * group size).
[[nodiscard]] Result<GroupMixing> group_mixing(const GroupLaw& law, MachineShape shape,
                                               std::uint64_t seed = 1);

}  // namespace weft
