// Mixing: how fast repeated averaging with W brings all ranks to one value.
//
// sigma2 is the largest singular value of P W P, P = I - 11'/n: the most by which one application
// leaves any disagreement, in the 2-norm. For doubly stochastic W that is the second largest
// singular value of W, and k rounds leave at most sigma2^k. For other W one round may enlarge a
// disagreement (sigma2 >= 1, a gap below 0) although many rounds mix; `rounds` is then the figure
// to read. For a schedule W is the product over a period.
//
// rounds counts applications of W until the disagreement is `distance` times the first one,
// measured on z = W…W x / W…W 1 for one fixed pseudo-random x: the plain iterate for row-stochastic
// W, push-sum's ratio for column-stochastic W. No value: not within kMostMixingRounds (not
// connected, for instance).
//
// Cost: at most kMostLanczosSteps products with W and its transpose, and `rounds` products with W;
// a second or two at several thousand ranks.
#pragma once

#include <optional>

#include "topology/graph/digraph.h"
#include "topology/graph/schedule.h"

namespace weft {

// The Krylov space is the whole space up to this n, so sigma2 is exact there; above, extreme
// singular values converge far sooner than this unless thousands of them crowd at 1 (a ring of
// thousands).
inline constexpr int kMostLanczosSteps = 400;
inline constexpr int kMostMixingRounds = 10'000;
// Longer periods are refused: a product of so many steps says nothing about any one of them.
inline constexpr std::uint64_t kMostMixingPeriod = 4096;

struct Mixing {
  double sigma2 = 0;
  double spectral_gap = 1;  // 1 - sigma2
  std::optional<int> rounds;
};

inline constexpr double kMixedDistance = 1e-3;

[[nodiscard]] double sigma2(const Graph& graph);
// invalid_argument when the period exceeds kMostMixingPeriod; mismatch when the views contradict.
Result<double> sigma2(const Schedule& schedule);

[[nodiscard]] Mixing mixing(const Graph& graph, double distance = kMixedDistance);
Result<Mixing> mixing(const Schedule& schedule, double distance = kMixedDistance);

}  // namespace weft
