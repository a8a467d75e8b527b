// The forward pass, and the textbook gradient: (probability - 1[class is the label]) * pixel.
#include "examples/digits/softmax.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace digits {
namespace {

using Scores = std::array<float, kClasses>;

std::span<const float> of_class(Model model, std::size_t c) {
  return model.subspan(c * (kPixels + 1), kPixels + 1);
}

Scores scores(Model model, std::span<const float> image) {
  Scores result;
  for (std::size_t c = 0; c < kClasses; ++c) {
    const auto weights = of_class(model, c);
    result[c] = std::inner_product(image.begin(), image.end(), weights.begin(), weights[kPixels]);
  }
  return result;
}

// The largest score is subtracted first, so that exp cannot overflow.
Scores probabilities(Model model, std::span<const float> image) {
  Scores result = scores(model, image);
  const float largest = *std::ranges::max_element(result);
  for (float& score : result) score = std::exp(score - largest);
  const float sum = std::accumulate(result.begin(), result.end(), 0.0F);
  for (float& score : result) score /= sum;
  return result;
}

}  // namespace

double loss(Model model, const Dataset& data, std::span<const std::size_t> rows) {
  double sum = 0;
  for (const std::size_t row : rows) {
    sum -= std::log(probabilities(model, data.image(row))[data.labels[row]]);
  }
  return sum / static_cast<double>(rows.size());
}

void gradient(Model model, const Dataset& data, std::span<const std::size_t> rows,
              std::span<float> result) {
  std::ranges::fill(result, 0.0F);
  const float share = 1.0F / static_cast<float>(rows.size());
  for (const std::size_t row : rows) {
    const auto image = data.image(row);
    Scores error = probabilities(model, image);
    error[data.labels[row]] -= 1.0F;
    for (std::size_t c = 0; c < kClasses; ++c) {
      const auto part = result.subspan(c * (kPixels + 1), kPixels + 1);
      for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {
        part[pixel] += share * error[c] * image[pixel];
      }
      part[kPixels] += share * error[c];
    }
  }
}

double accuracy(Model model, const Dataset& data, std::span<const std::size_t> rows) {
  const auto right = std::ranges::count_if(rows, [&](std::size_t row) {
    const Scores result = scores(model, data.image(row));
    const auto likely = std::ranges::max_element(result) - result.begin();
    return static_cast<std::size_t>(likely) == data.labels[row];
  });
  return static_cast<double>(right) / static_cast<double>(rows.size());
}

}  // namespace digits
