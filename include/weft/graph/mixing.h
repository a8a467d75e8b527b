// Mixing: how fast repeated averaging with W brings all ranks to one value.
//
// sigma2 is the largest singular value of P W P with P = I - 11'/n. It bounds the factor by which
// one round (one application of W) changes a disagreement between the ranks, in the 2-norm. For
// doubly stochastic W it is the second largest singular value of W, and k rounds leave at most the
// fraction sigma2^k. For other W one round may enlarge a disagreement (sigma2 >= 1, spectral gap
// below 0) although many rounds mix. In that case `rounds` is the figure to read. For a schedule, W
// is the product over a period.
//
// `rounds` is the number of rounds until the disagreement is `distance` times the initial one. It
// is measured on z = W…W x / W…W 1 for one fixed pseudo-random x. For row-stochastic W this is the
// plain iterate, for column-stochastic W push-sum's ratio. It has no value if kMostMixingRounds
// rounds are not enough, for example because the graph is not connected.
//
// Cost: at most kMostLanczosSteps products with W and its transpose, and `rounds` products with W.
// That is a second or two for several thousand ranks.
#pragma once

#include <weft/graph/digraph.h>
#include <weft/graph/schedule.h>

#include <optional>

namespace WEFT_PUBLIC weft {

// Up to this n the Krylov space is the whole space, so sigma2 is exact. Above it, the extreme
// singular values converge in far fewer steps, unless thousands of them lie close to 1 (as in a
// ring of thousands of ranks).
inline constexpr int kMostLanczosSteps = 400;
inline constexpr int kMostMixingRounds = 10'000;
// Longer periods are refused, because a product of so many steps says nothing about a single step.
inline constexpr std::uint64_t kMostMixingPeriod = 4096;

struct Mixing {
  double sigma2 = 0;
  double spectral_gap = 1;  // 1 - sigma2
  std::optional<int> rounds;
};

inline constexpr double kMixedDistance = 1e-3;

[[nodiscard]] double sigma2(const Graph& graph);
// invalid_argument if the period exceeds kMostMixingPeriod; mismatch if the views contradict each
// other.
Result<double> sigma2(const Schedule& schedule);

[[nodiscard]] Mixing mixing(const Graph& graph, double distance = kMixedDistance);
Result<Mixing> mixing(const Schedule& schedule, double distance = kMixedDistance);

}  // namespace weft
