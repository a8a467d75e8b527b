// Encoded tensors: sizes, what is lost, what is refused.
#include "engine/compress/compress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace weft {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr Compression kAll[] = {Compression::none,   Compression::f16,  Compression::bf16,
                                Compression::sketch, Compression::e4m3, Compression::e5m2};

std::vector<std::byte> encode(Compression compression, const std::vector<float>& values) {
  std::vector<std::byte> bytes(encoded_bytes(compression, values.size()));
  Encoder().encode(compression, values, bytes);
  return bytes;
}

std::vector<float> decode(Compression compression, const std::vector<std::byte>& bytes,
                          std::size_t count) {
  std::vector<float> values(count);
  const Result<Encoded> encoded = Encoded::open(bytes, compression, count);
  EXPECT_TRUE(encoded.ok()) << encoded.status().to_string();
  if (encoded.ok()) encoded->decode(values);
  return values;
}

std::vector<float> through(Compression compression, const std::vector<float>& values) {
  return decode(compression, encode(compression, values), values.size());
}

template <class Law>
std::vector<float> drawn(std::size_t count, Law law, std::uint32_t seed = 7) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(law(random));
  return values;
}

// The share of elements that lie between an element and what it was decoded as, at its worst of some
// thousands; elements that were decoded to within 2^-7 of their distance from the center do not count.
double rank_error(const std::vector<float>& values, const std::vector<float>& decoded,
                  float center = 0) {
  std::vector<float> sorted = values;
  std::ranges::sort(sorted);
  double worst = 0;
  const std::size_t step = values.size() / 5'000 + 1;
  for (std::size_t i = 0; i < values.size(); i += step) {
    const auto [low, high] = std::minmax(values[i], decoded[i]);
    if (high - low <= std::abs(values[i] - center) / 128) continue;
    const auto between =
        std::ranges::lower_bound(sorted, high) - std::ranges::upper_bound(sorted, low);
    worst = std::max(worst, static_cast<double>(between) / static_cast<double>(values.size()));
  }
  return worst;
}

TEST(Encoded, HasItsExactSize) {
  constexpr std::size_t kMiB = 1 << 18;  // elements
  EXPECT_EQ(encoded_bytes(Compression::none, 10), 16U + 40);
  EXPECT_EQ(encoded_bytes(Compression::f16, 10), 16U + 20);
  EXPECT_EQ(encoded_bytes(Compression::bf16, 0), 16U);
  EXPECT_EQ(encoded_bytes(Compression::sketch, 10), 16U + 1024 + 10);
  EXPECT_EQ(encoded_bytes(Compression::e4m3, 10), 16U + 4 + 10);
  EXPECT_EQ(encoded_bytes(Compression::e5m2, 0), 16U + 4);
  EXPECT_LE(static_cast<double>(encoded_bytes(Compression::sketch, kMiB)), 0.27 * 4 * kMiB);
}

TEST(Encoded, EqualTensorsHaveEqualBytes) {
  const std::vector<float> values = drawn(100'000, std::normal_distribution(0.0, 1e-3));
  for (const Compression compression : kAll)
    EXPECT_EQ(encode(compression, values), encode(compression, values)) << name(compression);
}

TEST(Encoded, KeepsWhatIsNotFinite) {
  const std::vector<float> values = {1, kNan, -kInfinity, 2, kInfinity, -0.0F, 0};
  for (const Compression compression : kAll) {
    const std::vector<float> back = through(compression, values);
    EXPECT_TRUE(std::isnan(back[1])) << name(compression);
    const bool has_infinity = compression != Compression::e4m3;
    EXPECT_TRUE(has_infinity ? back[2] == -kInfinity : std::isnan(back[2])) << name(compression);
    EXPECT_TRUE(has_infinity ? back[4] == kInfinity : std::isnan(back[4])) << name(compression);
    EXPECT_EQ(back[0], 1) << name(compression);
    EXPECT_EQ(back[3], 2) << name(compression);
    EXPECT_EQ(back[6], 0) << name(compression);
  }
}

TEST(Encoded, KeepsTheLargestAndTheSmallest) {
  for (const Compression compression :
       {Compression::bf16, Compression::sketch, Compression::e4m3, Compression::e5m2}) {
    for (const float value : {0x1.Cp127F, -0x1p-100F, std::numeric_limits<float>::min()})
      EXPECT_EQ(through(compression, {value, 0}), (std::vector<float>{value, 0}))
          << name(compression);
  }
  constexpr float kMost = std::numeric_limits<float>::max();
  EXPECT_TRUE(std::isfinite(through(Compression::sketch, {1, kMost, -kMost})[1]));
}

TEST(Encoded, OfNothingButNan) {
  for (const float value : {kNan, kInfinity, -kInfinity}) {
    const std::vector<float> back = through(Compression::sketch, std::vector<float>(3000, value));
    EXPECT_TRUE(std::ranges::all_of(
        back, [&](float got) { return std::isnan(value) ? std::isnan(got) : got == value; }));
  }
  EXPECT_TRUE(through(Compression::sketch, {}).empty());
}

TEST(Encoded, AddsTimesAWeight) {
  const std::vector<float> values = {1, -2, 0.5F, 0};
  for (const Compression compression : kAll) {
    const std::vector<std::byte> bytes = encode(compression, values);
    std::vector<float> sum = {10, 10, 10, 10};
    Encoded::open(bytes, compression, 4)->add(0.25F, sum);
    EXPECT_EQ(sum, (std::vector<float>{10.25F, 9.5F, 10.125F, 10})) << name(compression);
  }
}

TEST(Halves, RoundToNearest) {
  const std::vector<float> values = drawn(10'000, std::normal_distribution(0.0, 1.0));
  const std::vector<float> f16 = through(Compression::f16, values);
  const std::vector<float> bf16 = through(Compression::bf16, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_LE(std::abs(f16[i] - values[i]), std::abs(values[i]) / 2048 + 0x1p-25F);
    ASSERT_LE(std::abs(bf16[i] - values[i]), std::abs(values[i]) / 256);
  }
}

// Whatever the largest element is, those within a factor of 2^14 of it (e5m2: 2^29) keep 4 bits of
// precision (e5m2: 3), and smaller ones are a multiple of a step.
TEST(Float8, RoundsToNearestRelativeToTheLargest) {
  for (const double unit : {1e-30, 1e-3, 1.0, 3e20}) {
    std::vector<float> values = drawn(10'000, std::lognormal_distribution(0.0, 2.0));
    for (float& value : values) value = static_cast<float>(value * unit);
    const float largest = std::ranges::max(values);
    const std::vector<float> e4m3 = through(Compression::e4m3, values);
    const std::vector<float> e5m2 = through(Compression::e5m2, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_LE(std::abs(e4m3[i] - values[i]), values[i] / 16 + largest * 0x1p-17F) << values[i];
      ASSERT_LE(std::abs(e5m2[i] - values[i]), values[i] / 8 + largest * 0x1p-31F) << values[i];
    }
  }
}

TEST(Sketch, FewValuesAreExact) {
  std::vector<float> values = drawn(20'000, std::uniform_int_distribution(-100, 100));
  EXPECT_EQ(through(Compression::sketch, values), values);
  for (const float value : {0.0F, 3.25F, -1e-30F, 1e30F})
    EXPECT_EQ(through(Compression::sketch, std::vector<float>(500, value)),
              std::vector<float>(500, value));
  values = drawn(200, std::normal_distribution(0.0, 1.0));
  EXPECT_LT(rank_error(values, through(Compression::sketch, values)), 0.01);
}

TEST(Sketch, ZerosOfASparseGradientStayZero) {
  std::mt19937 random(3);
  std::vector<float> values = drawn(300'000, std::normal_distribution(0.0, 1e-4));
  for (float& value : values) value = random() % 10 < 7 ? 0 : value;
  const std::vector<float> back = through(Compression::sketch, values);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i] == 0, back[i] == 0) << i;
}

TEST(Sketch, KeepsTheRankErrorThatItPromises) {
  for (const std::size_t count : {1'000U, 65'536U, 65'537U, 262'144U}) {
    const double most = count <= 65'536 ? 3.0 / 253 : 0.034;
    const std::vector<std::pair<const char*, std::vector<float>>> tensors = {
        {"normal", drawn(count, std::normal_distribution(0.0, 1e-3))},
        {"heavy tails", drawn(count, std::cauchy_distribution(0.0, 1e-5))},
        {"logarithms", drawn(count, std::lognormal_distribution(0.0, 8.0))},
        {"one side", drawn(count, std::exponential_distribution(5.0))},
        {"far from 0", drawn(count, std::normal_distribution(1.0, 1e-4))},
        {"far from 0, negative", drawn(count, std::normal_distribution(-3e6, 100.0))},
        {"two heaps", drawn(count, [](std::mt19937& random) {
           return (random() % 2 == 0 ? 1.0 : -1.0) + 1e-5 * static_cast<double>(random() % 1000);
         })}};
    for (const auto& [what, values] : tensors) {
      const bool is_far = std::string_view(what).starts_with("far");
      const float center = is_far ? values[0] : 0;
      EXPECT_LE(rank_error(values, through(Compression::sketch, values), center), most)
          << what << ", " << count;
    }
  }
}

// An Encoder keeps counts from one sketch to the next, which must not show.
TEST(Sketch, DependsOnNothingThatWasEncodedBefore) {
  Encoder used;
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    const double center = seed % 3 == 0 ? 5.0 : 0.0;
    const std::size_t count = seed % 4 == 3 ? 70'000 : 500 * (seed + 1);
    std::vector<float> values =
        drawn(count, std::normal_distribution(center, std::pow(10.0, -2.0 * seed)), seed);
    if (seed % 2 == 1) values[7] = values[100] = seed % 5 == 0 ? kNan : -kInfinity;
    std::vector<std::byte> bytes(encoded_bytes(Compression::sketch, count));
    used.encode(Compression::sketch, values, bytes);
    EXPECT_EQ(bytes, encode(Compression::sketch, values)) << seed;
  }
}

// What a periodic tensor shows where the period and the sample meet: every part of it is seen.
TEST(Sketch, SamplesTensorsWithAPeriod) {
  for (const std::size_t period : {2U, 32U, 64U, 1024U}) {
    std::vector<float> values(1 << 20);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = i % period == 0 ? 1.0F : 1e-3F * static_cast<float>(i % 7);
    const std::vector<float> back = through(Compression::sketch, values);
    EXPECT_EQ(back[0], 1.0F) << period;
    EXPECT_EQ(back[period + 1], values[period + 1]) << period;
  }
}

TEST(Sketch, OfAnotherKindIsRefused) {
  const std::vector<float> values(100, 1.0F);
  const std::vector<std::byte> good = encode(Compression::sketch, values);
  const auto said = [&](std::vector<std::byte> bytes, Compression compression, std::size_t count) {
    const Result<Encoded> encoded = Encoded::open(bytes, compression, count);
    EXPECT_EQ(encoded.status().code(), Code::mismatch);
    return encoded.status().to_string();
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(contains(said({}, Compression::sketch, 100), "cut short"));
  EXPECT_TRUE(contains(said(std::vector(good.begin(), good.end() - 1), Compression::sketch, 100),
                       "has 1139 bytes instead of 1140"));
  std::vector<std::byte> longer = good;
  longer.push_back({});
  EXPECT_TRUE(contains(said(longer, Compression::sketch, 100), "1141 bytes instead of 1140"));
  EXPECT_TRUE(
      contains(said(good, Compression::f16, 100), "is encoded as sketch, and this rank uses f16"));
  EXPECT_TRUE(contains(said(good, Compression::sketch, 99), "100 elements, and this one 99"));
  std::vector<std::byte> other = good;
  other[4] = std::byte{9};
  EXPECT_TRUE(contains(said(other, Compression::sketch, 100), "version 9, and this is 1"));
  other = good;
  other[5] = std::byte{77};
  EXPECT_TRUE(contains(said(other, Compression::sketch, 100), "compression 77"));
  other = good;
  other[0] = std::byte{0};
  EXPECT_TRUE(contains(said(other, Compression::sketch, 100), "not an encoded tensor"));
}

// The sum of what arrives follows the sum of what was given, although each of them loses something.
TEST(Residuals, LoseNothingForGood) {
  const std::size_t count = 5'000;
  std::vector<float> given(count), with(count), residual(count);
  Encoder encoder;
  std::vector<std::byte> bytes(encoded_bytes(Compression::sketch, count));
  for (int step = 0; step < 200; ++step) {
    const std::vector<float> gradient =
        drawn(count, std::normal_distribution(1e-4, 1e-3), static_cast<std::uint32_t>(step));
    for (std::size_t i = 0; i < count; ++i) given[i] += gradient[i];
    encoder.encode(Compression::sketch, gradient, bytes, residual);
    Encoded::open(bytes, Compression::sketch, count)->add(1, with);
  }
  for (std::size_t i = 0; i < count; ++i) ASSERT_NEAR(with[i] + residual[i], given[i], 1e-5) << i;
}

TEST(Residuals, ForgetWhatIsNotFinite) {
  Encoder encoder;
  std::vector<float> residual(3);
  std::vector<std::byte> bytes(encoded_bytes(Compression::bf16, 3));
  encoder.encode(Compression::bf16, std::vector<float>{kNan, kInfinity, 1}, bytes, residual);
  EXPECT_EQ(residual, (std::vector<float>{0, 0, 0}));
}

TEST(Residuals, HaveOneUseAtATimeAndOneCount) {
  ErrorFeedback feedback;
  const ErrorFeedback same = feedback;
  EXPECT_TRUE(ResidualUse::begin(nullptr, "x", 4)->values().empty());
  {
    const Result<ResidualUse> use = ResidualUse::begin(&feedback, "x", 4);
    ASSERT_TRUE(use.ok());
    EXPECT_EQ(use->values().size(), 4U);
    use->values()[2] = 5;
    EXPECT_EQ(ResidualUse::begin(&same, "x", 4).status().code(), Code::invalid_argument);
    EXPECT_EQ(feedback.residual().status().code(), Code::invalid_argument);
    EXPECT_EQ(feedback.clear().code(), Code::invalid_argument);
  }
  EXPECT_EQ(same.residual().value(), (std::vector<float>{0, 0, 5, 0}));
  const Status other = ResidualUse::begin(&feedback, "x", 3).status();
  EXPECT_EQ(other.text(),
            "x: this error feedback belongs to a tensor of 4 elements, and this one has 3; clear() "
            "begins anew");
  ASSERT_TRUE(feedback.clear().ok());
  EXPECT_EQ(ResidualUse::begin(&feedback, "x", 3)->values().size(), 3U);
}

// A program may drop its ErrorFeedback while an operation still uses the residual.
TEST(Residuals, OutliveTheirHandles) {
  std::optional<ErrorFeedback> feedback(std::in_place);
  Result<ResidualUse> use = ResidualUse::begin(&*feedback, "x", 4);
  ASSERT_TRUE(use.ok());
  feedback.reset();
  use->values()[3] = 1;
  use->end();
  EXPECT_TRUE(use->values().empty());
}

}  // namespace
}  // namespace weft
