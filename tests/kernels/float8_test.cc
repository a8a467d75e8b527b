// e4m3 and e5m2 against tables made from their definition: every value, every f16 narrowed to them, and
// whole arrays by each instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/half/half.h"
#include "engine/kernels/kernels.h"
#include "tests/kernels/targets.h"

namespace weft {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// An 8-bit type as the OFP8 specification defines it.
struct Definition {
  DataType type;
  int mantissa_bits;
  int bias;
  int largest;  // bits of its largest number; the next ones would be larger if they were numbers
  float (*widen)(std::uint8_t);
  std::uint8_t (*narrow)(float);

  // The number that the bits would stand for if none stood for infinity or NaN; exact.
  [[nodiscard]] double number(int bits) const {
    const int exponent = (bits & 0x7F) >> mantissa_bits;
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const int implied = exponent == 0 ? 0 : 1 << mantissa_bits;
    const double size =
        std::ldexp(implied + mantissa, std::max(exponent, 1) - bias - mantissa_bits);
    return (bits & 0x80) != 0 ? -size : size;
  }
  [[nodiscard]] bool has_infinity() const { return type == DataType::e5m2; }
  [[nodiscard]] bool is_nan(int bits) const {
    return (bits & 0x7F) > largest + (has_infinity() ? 1 : 0);
  }
  // The nearest number of those that the type has and one more, which stands for an overflow; of two
  // that are as near, the one whose last bit is 0.
  [[nodiscard]] int nearest(double value) const {
    int best = 0;
    for (int bits = 0; bits <= largest + 1; ++bits) {
      const double here = std::abs(number(bits) - std::abs(value));
      const double there = std::abs(number(best) - std::abs(value));
      if (here < there || (here == there && bits % 2 == 0)) best = bits;
    }
    return best | (std::signbit(value) ? 0x80 : 0);
  }
};
constexpr std::array kTypes{Definition{DataType::e4m3, 3, 7, 0x7E, f32_from_e4m3, e4m3_from_f32},
                            Definition{DataType::e5m2, 2, 15, 0x7B, f32_from_e5m2, e5m2_from_f32}};

TEST(Float8, EveryValueIsTheDefinedOneAndComesBack) {
  for (const Definition& type : kTypes) {
    for (int bits = 0; bits < 256; ++bits) {
      const auto byte = static_cast<std::uint8_t>(bits);
      const float value = type.widen(byte);
      if (type.is_nan(bits)) {
        EXPECT_TRUE(std::isnan(value) && type.is_nan(type.narrow(value))) << bits;
        continue;
      }
      const bool is_infinite = (bits & 0x7F) > type.largest;
      EXPECT_EQ(value,
                is_infinite ? std::copysign(kInfinity, type.number(bits)) : type.number(bits))
          << name(type.type) << " " << bits;
      EXPECT_EQ(std::signbit(value), bits >= 0x80);
      EXPECT_EQ(type.narrow(value), byte);
    }
  }
}

TEST(Float8, EveryF16IsNarrowedToTheNearestEven) {
  for (const Definition& type : kTypes) {
    for (int bits = 0; bits < 1 << 16; ++bits) {
      const float value = f32_from_f16(static_cast<std::uint16_t>(bits));
      const std::uint8_t got = type.narrow(value);
      if (std::isfinite(value)) {
        ASSERT_EQ(got, type.nearest(value)) << name(type.type) << " of " << value;
      } else {
        ASSERT_EQ(type.is_nan(got), std::isnan(value) || !type.has_infinity());
        ASSERT_TRUE(type.is_nan(got) || type.widen(got) == value);
      }
    }
  }
}

TEST(Float8, KnownValues) {
  EXPECT_EQ(f32_from_e4m3(0x7E), 448);
  EXPECT_EQ(f32_from_e4m3(0x01), 0x1p-9F);
  EXPECT_EQ(f32_from_e5m2(0x7B), 57'344);
  EXPECT_EQ(f32_from_e5m2(0x01), 0x1p-16F);
  EXPECT_EQ(e4m3_from_f32(464), 0x7E) << "a tie with the even one";
  EXPECT_EQ(e4m3_from_f32(-464.001F), 0xFF) << "no infinity: NaN";
  EXPECT_EQ(e4m3_from_f32(kInfinity), 0x7F);
  EXPECT_EQ(e5m2_from_f32(61'439), 0x7B);
  EXPECT_EQ(e5m2_from_f32(-61'440), 0xFC) << "infinity";
  EXPECT_EQ(e5m2_from_f32(-0.0F), 0x80);
}

// Points at, between and beside all values, and what f32 has beyond them.
std::vector<float> many_values() {
  std::vector<float> values = {kInfinity,
                               -kInfinity,
                               kNan,
                               std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::denorm_min(),
                               1e-30F};
  for (int bits = 0; bits < 1 << 16; ++bits) {
    const float value = f32_from_f16(static_cast<std::uint16_t>(bits));
    values.insert(values.end(), {value, std::nextafter(value, kInfinity), value * 1e3F});
  }
  return values;
}

TEST(Float8, ArraysAreAsSingleOnes) {
  const std::vector<float> values = many_values();
  std::array<std::uint8_t, 257> bytes{};
  for (std::size_t i = 0; i < 256; ++i) bytes[i + 1] = static_cast<std::uint8_t>(i);
  for (const Definition& type : kTypes) {
    for_each_instruction_set([&] {
      for (const float factor : {1.0F, 0.25F}) {
        std::vector<std::uint8_t> narrowed(values.size() + 1);
        narrow(type.type, values, narrowed.data() + 1, factor);
        for (std::size_t i = 0; i < values.size(); ++i) {
          const std::uint8_t wanted = type.narrow(values[i] * factor);
          if (type.is_nan(wanted) && type.is_nan(narrowed[i + 1])) continue;
          ASSERT_EQ(narrowed[i + 1], wanted) << name(type.type) << " of " << values[i];
        }
        std::vector<float> widened(256);
        widen(type.type, bytes.data() + 1, widened, factor);
        for (std::size_t i = 0; i < 256; ++i) {
          const float wanted = type.widen(bytes[i + 1]) * factor;
          if (std::isnan(wanted) && std::isnan(widened[i])) continue;
          ASSERT_EQ(std::bit_cast<std::uint32_t>(widened[i]), std::bit_cast<std::uint32_t>(wanted));
        }
      }
    });
  }
}

}  // namespace
}  // namespace weft
