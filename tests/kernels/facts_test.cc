// What is asked of a whole f32 array: the same answer by every instruction set, whatever the count.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "engine/kernels/kernels.h"
#include "tests/kernels/targets.h"

namespace weft {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Facts, TheLargestMagnitudeIsFoundAtEveryPlace) {
  std::vector<float> values(37, 0.5F);
  values[11] = kInfinity;
  values[30] = kNan;
  for_each_instruction_set([&] {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i])) continue;
      values[i] = -3;
      EXPECT_EQ(largest_finite(values), 3) << i;
      values[i] = 0.5F;
    }
    EXPECT_EQ(largest_finite({}), 0);
    EXPECT_EQ(largest_finite(std::vector<float>{kNan, -kInfinity}), 0);
  });
}

TEST(Facts, MomentsHaveTheSameBitsEverywhere) {
  std::mt19937 random(5);
  std::normal_distribution law(3.0F, 100.0F);
  for (const std::size_t count : {0U, 1U, 15U, 16U, 17U, 1000U, 4099U}) {
    std::vector<float> values(count);
    for (float& value : values) value = random() % 50 == 0 ? kNan : law(random);
    if (count > 100) values[70] = -kInfinity;
    long double sum = 0, squares = 0;
    std::size_t finite = 0;
    for (const float value : values) {
      if (!std::isfinite(value)) continue;
      sum += value;
      squares += static_cast<long double>(value) * value;
      ++finite;
    }
    std::optional<Moments> first;
    for_each_instruction_set([&] {
      const Moments found = moments(values);
      if (!first) first = found;
      EXPECT_TRUE(found.sum == first->sum && found.squares == first->squares) << count;
      EXPECT_EQ(found.count, finite);
      EXPECT_NEAR(found.sum, static_cast<double>(sum), 1e-9 * static_cast<double>(squares));
      EXPECT_NEAR(found.squares, static_cast<double>(squares),
                  1e-12 * static_cast<double>(squares));
    });
  }
}

}  // namespace
}  // namespace weft
