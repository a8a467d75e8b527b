// The scalar conversions of f16, bf16, e4m3 and e5m2, for every value and every point between two of them.
#include "engine/half/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "engine/kernels/kernels.h"

namespace weft {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Walks from 0 to the largest finite value in both signs. Between two neighbors the middle goes to
// the even one, and what is just above or below the middle goes to the nearer one.
template <class Bits, class Widen, class Narrow>
void expect_nearest_even(Bits infinity, Widen widen, Narrow narrow) {
  const int sign = 1 << (8 * sizeof(Bits) - 1);
  for (Bits low = 0; low < infinity; ++low) {
    const auto high = static_cast<Bits>(low + 1);
    const float middle = (high == infinity) ? widen(low) + (widen(low) - widen(low - 1)) / 2
                                            : widen(low) / 2 + widen(high) / 2;
    const Bits even = low % 2 == 0 ? low : high;
    ASSERT_EQ(narrow(widen(low)), low);
    ASSERT_EQ(narrow(middle), even) << low;
    ASSERT_EQ(narrow(std::nextafter(middle, 0.0f)), low) << low;
    ASSERT_EQ(narrow(std::nextafter(middle, kInfinity)), high) << low;
    ASSERT_EQ(narrow(-middle), even | sign) << low;
  }
}

// Whole arrays, by the instructions of this processor, get the bits of the scalar functions.
TEST(Half, ArraysOfF16AreAsSingleOnes) {
  std::vector<std::uint16_t> halves(1 << 16);
  std::iota(halves.begin(), halves.end(), std::uint16_t{0});
  std::vector<float> widened(halves.size());
  widen(DataType::f16, halves.data(), widened);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const float wanted = f32_from_f16(halves[i]);
    ASSERT_EQ(std::isnan(widened[i]), std::isnan(wanted)) << i;
    if (std::isnan(wanted)) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(widened[i]), std::bit_cast<std::uint32_t>(wanted));
  }
  // Every value, and points between it and its neighbors, at an odd address.
  std::vector<float> values;
  for (const float value : widened) {
    if (std::isnan(value)) continue;
    for (const float factor : {1.0F, 1.0F + 0x1p-12F, 1.0F + 0x1p-11F, 1.0F + 0x3p-12F})
      values.push_back(value * factor);
  }
  std::vector<std::byte> narrowed(2 * values.size() + 1);
  narrow(DataType::f16, values, narrowed.data() + 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t got = 0;
    std::memcpy(&got, narrowed.data() + 1 + 2 * i, sizeof got);
    ASSERT_EQ(got, f16_from_f32(values[i])) << values[i];
  }
}

TEST(Half, F16RoundsToNearestEven) {
  expect_nearest_even<std::uint16_t>(
      0x7C00, [](int bits) { return f32_from_f16(static_cast<std::uint16_t>(bits)); },
      f16_from_f32);
}

TEST(Half, Bf16RoundsToNearestEven) {
  expect_nearest_even<std::uint16_t>(
      0x7F80, [](int bits) { return f32_from_bf16(static_cast<std::uint16_t>(bits)); },
      bf16_from_f32);
}

TEST(Half, KnownValues) {
  EXPECT_EQ(f32_from_f16(0x3C00), 1.0f);
  EXPECT_EQ(f32_from_f16(0xC500), -5.0f);
  EXPECT_EQ(f32_from_f16(0x0001), 0x1p-24f);
  EXPECT_EQ(f32_from_f16(0x7BFF), 65504.0f);
  EXPECT_EQ(f32_from_f16(0xFC00), -kInfinity);
  EXPECT_EQ(f32_from_bf16(0x3F80), 1.0f);
  EXPECT_EQ(f16_from_f32(1e6f), 0x7C00);
  EXPECT_EQ(f16_from_f32(-0.0f), 0x8000);
  EXPECT_EQ(f16_from_f32(-kInfinity), 0xFC00);
  EXPECT_EQ(bf16_from_f32(std::numeric_limits<float>::max()), 0x7F80);
}

TEST(Half, NaNStaysNaN) {
  for (std::uint32_t mantissa = 1; mantissa < 0x400; ++mantissa) {
    const float value = f32_from_f16(static_cast<std::uint16_t>(0x7C00 | mantissa));
    EXPECT_TRUE(std::isnan(value));
    EXPECT_TRUE(std::isnan(f32_from_f16(f16_from_f32(value))));
    EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(value))));
  }
  // A payload that rounding would carry out of, or cut off altogether.
  EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(std::bit_cast<float>(0x7FFFFFFF)))));
  EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(std::bit_cast<float>(0x7F800001)))));
  EXPECT_TRUE(std::isnan(f32_from_f16(f16_from_f32(std::bit_cast<float>(0x7F800001)))));
}

}  // namespace
}  // namespace weft
