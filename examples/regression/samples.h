// samples: the regression set as numbers, the loss of a linear model on it, and the model that
// minimizes it. A model is kFeatures numbers x; it predicts a·x for a sample with features a.
// Values and pure functions.
#pragma once

#include <cstddef>
#include <istream>
#include <span>
#include <vector>

#include "verbs/base/base.h"

namespace regression {

inline constexpr std::size_t kFeatures = 10;

using Model = std::span<const double>;  // kFeatures

struct Samples {
  std::vector<double> features;  // kFeatures per sample
  std::vector<double> targets;   // one per sample

  [[nodiscard]] std::size_t size() const { return targets.size(); }
  [[nodiscard]] std::span<const double> row(std::size_t number) const {
    return std::span(features).subspan(number * kFeatures, kFeatures);
  }
};

// Reads the format of examples/data/diabetes.csv. Every feature is shifted and scaled to mean 0 and
// variance 1, the target to mean 0, so that the model needs no constant and one step length suits
// all features. Errors name the line or the column.
weft::Result<Samples> read_samples(std::istream& stream);

// What rank `rank` of `size` has: every size-th sample, beginning with number `rank`.
[[nodiscard]] Samples share(const Samples& samples, int rank, int size);

// result := scale * A^T (A x - b): the derivative of scale/2 * |A x - b|^2, with one row of A and
// of b per sample.
void gradient(Model x, const Samples& samples, double scale, std::span<double> result);

// The x that minimizes |A x - b|, by the normal equations A^T A x = A^T b. An error if the samples
// do not determine it.
weft::Result<std::vector<double>> least_squares(const Samples& samples);

}  // namespace regression
