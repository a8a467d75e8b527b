// The gradient against differences of the loss, and cases that can be worked out by hand.
#include "examples/digits/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace digits {
namespace {

constexpr Rows::value_type kImages = 5;

std::vector<float> random_numbers(std::size_t count, float from, float to, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> between(from, to);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = between(random);
  return numbers;
}

Dataset random_images() {
  return {random_numbers(kImages * kPixels, 0, 1, 1), {0, 3, 9, 3, 7}};
}

TEST(Softmax, AModelOfZerosFindsAllClassesEquallyLikely) {
  const std::vector<float> model(kParameters);
  const Rows rows{0, 1, 2, 3, 4};
  EXPECT_NEAR(loss(model, random_images(), rows), std::log(10.0), 1e-6);
}

TEST(Softmax, GradientIsTheSlopeOfTheLoss) {
  const Dataset data = random_images();
  const Rows rows{0, 2, 4};
  auto model = random_numbers(kParameters, -1, 1, 2);
  std::vector<float> slope(kParameters);
  gradient(model, data, rows, slope);
  for (const std::size_t parameter : {0UL, 63UL, 64UL, 200UL, 650UL - 1}) {
    constexpr float kStep = 1e-2F;
    const float here = model[parameter];
    model[parameter] = here + kStep;
    const double above = loss(model, data, rows);
    model[parameter] = here - kStep;
    const double below = loss(model, data, rows);
    model[parameter] = here;
    EXPECT_NEAR(slope[parameter], (above - below) / (2 * kStep), 1e-4) << parameter;
  }
}

TEST(Softmax, LargeScoresDoNotOverflow) {
  std::vector<float> model(kParameters);
  model[kPixels] = 1e4F;  // the bias of class 0
  const Dataset data{std::vector<float>(kPixels), {0}};
  EXPECT_EQ(loss(model, data, Rows{0}), 0.0);
}

TEST(Softmax, AccuracyCountsTheRightOnes) {
  std::vector<float> model(kParameters);
  model[3 * (kPixels + 1) + kPixels] = 1;  // everything looks like a 3
  EXPECT_DOUBLE_EQ(accuracy(model, random_images(), Rows{0, 1, 2, 3, 4}), 0.4);
  EXPECT_DOUBLE_EQ(accuracy(model, random_images(), Rows{1, 3}), 1.0);
}

}  // namespace
}  // namespace digits
