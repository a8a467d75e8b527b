// softmax: multinomial logistic regression on the digits. The model is kParameters numbers: for
// each class its kPixels weights, then its bias. Pure functions.
#pragma once

#include <cstddef>
#include <span>

#include "examples/digits/dataset.h"

namespace digits {

inline constexpr std::size_t kParameters = kClasses * (kPixels + 1);

using Model = std::span<const float>;  // kParameters

// Mean cross-entropy of the model over the rows, in nats.
[[nodiscard]] double loss(Model model, const Dataset& data, std::span<const std::size_t> rows);

// Its derivative by every parameter.
void gradient(Model model, const Dataset& data, std::span<const std::size_t> rows,
              std::span<float> result);

// Share of the rows whose label the model finds most likely.
[[nodiscard]] double accuracy(Model model, const Dataset& data, std::span<const std::size_t> rows);

}  // namespace digits
