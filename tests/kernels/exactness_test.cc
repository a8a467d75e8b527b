// What makes results trustworthy: closeness to extended precision, the same bits however the work
// is cut, the meaning of NaN, weights of one, and very many terms.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "engine/kernels/kernels.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/targets.h"

namespace weft {
namespace {

using reference::Bytes;

constexpr std::array kFloating{DataType::f16, DataType::bf16, DataType::f32,
                               DataType::f64, DataType::e4m3, DataType::e5m2};

struct Inputs {
  std::vector<Bytes> data;
  std::vector<Term> terms;
};

Inputs random_inputs(DataType type, std::size_t k, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> weight(-1.0, 1.0);
  Inputs inputs;
  for (std::size_t t = 0; t < k; ++t) {
    inputs.data.push_back(reference::random_elements(type, count, random));
  }
  for (const Bytes& bytes : inputs.data) inputs.terms.push_back({bytes.data(), weight(random)});
  return inputs;
}

Bytes combined(DataType type, Reduction reduction, const std::vector<Term>& terms,
               std::size_t count, StoreKind store = StoreKind::cached) {
  Bytes result(count * size_of(type));
  combine(type, reduction, terms, result.data(), count, store);
  return result;
}

// Relative error of one rounding to the type's memory form, and its smallest step near zero.
struct Precision {
  long double relative;
  long double step;
};
Precision precision(DataType type) {
  switch (type) {
    case DataType::f16:
      return {0x1p-11L, 0x1p-24L};
    case DataType::bf16:
      return {0x1p-8L, 0x1p-133L};
    case DataType::f32:
      return {0x1p-24L, 0x1p-149L};
    case DataType::e4m3:
      return {0x1p-4L, 0x1p-9L};
    case DataType::e5m2:
      return {0x1p-3L, 0x1p-16L};
    default:
      return {0x1p-53L, 0x1p-1074L};
  }
}

// k roundings of the accumulator, none larger than its relative error of the sum of magnitudes, and
// one to memory. The weights' own rounding is one more per term.
TEST(Exactness, SumsAreWithinTheirErrorBoundOfExtendedPrecision) {
  constexpr std::size_t kCount = 500;
  for (const DataType type : kFloating) {
    const long double accumulator = type == DataType::f64 ? 0x1p-53L : 0x1p-24L;
    for (const std::size_t k : {1, 2, 3, 8, 100}) {
      const Inputs inputs = random_inputs(type, k, kCount, k);
      const Bytes result = combined(type, Reduction::weighted_sum, inputs.terms, kCount);
      reference::with_type(type, [&](auto form) {
        using Form = decltype(form);
        for (std::size_t i = 0; i < kCount; ++i) {
          const auto at = [&](const Bytes& bytes) {
            return static_cast<long double>(
                Form::widen(reference::stored_at<typename Form::Stored>(bytes, i)));
          };
          long double exact = 0;
          long double magnitude = 0;
          for (std::size_t t = 0; t < k; ++t) {
            exact += inputs.terms[t].weight * at(inputs.data[t]);
            magnitude += std::abs(inputs.terms[t].weight * at(inputs.data[t]));
          }
          const long double bound = 2 * static_cast<long double>(k) * accumulator * magnitude +
                                    precision(type).relative * std::abs(exact) +
                                    precision(type).step;
          ASSERT_LE(std::abs(at(result) - exact), bound * 1.01L) << name(type) << " " << i;
        }
      });
    }
  }
}

// k times a whole number is exact in every type here, so nothing may be lost.
TEST(Exactness, TheMeanOfEqualNumbersIsThatNumber) {
  constexpr std::size_t kCount = 200;
  for (const DataType type : kFloating) {
    reference::with_type(type, [&](auto form) {
      using Form = decltype(form);
      using Stored = typename Form::Stored;
      Bytes numbers(kCount * sizeof(Stored));
      for (std::size_t i = 0; i < kCount; ++i) {
        const auto number =
            Form::narrow(static_cast<typename Form::Value>(static_cast<int>(i) - 100));
        std::memcpy(numbers.data() + i * sizeof(Stored), &number, sizeof(Stored));
      }
      for (std::size_t k = 1; k <= 50; ++k) {
        std::vector<Term> terms(k, {numbers.data(), 1.0 / static_cast<double>(k)});
        const double divisor = take_divisor(terms);
        EXPECT_EQ(divisor == 1.0, (k & (k - 1)) == 0) << k;
        Bytes mean(numbers.size());
        for_each_instruction_set([&] {
          combine(type, Reduction::weighted_sum, terms, mean.data(), kCount, StoreKind::cached,
                  divisor);
          ASSERT_EQ(mean, numbers) << name(type) << ", " << k << " terms";
        });
      }
    });
  }
}

TEST(Exactness, MeansStayBelowTheirLargestNumber) {
  const float large = std::numeric_limits<float>::max();
  std::vector<Term> terms(3, {&large, 1.0 / 3});
  const double divisor = take_divisor(terms);
  float mean = 0;
  combine(DataType::f32, Reduction::weighted_sum, terms, &mean, 1, StoreKind::cached, divisor);
  EXPECT_EQ(mean, large);
}

TEST(Exactness, OnlyTheWeightsOfAMeanAreDivided) {
  const float x = 1;
  std::vector<Term> terms(3, {&x, 1.0 / 3});
  terms[1].weight = 0.25;
  EXPECT_EQ(take_divisor(terms), 1.0);
  EXPECT_EQ(terms[0].weight, 1.0 / 3);
  EXPECT_EQ(terms[1].weight, 0.25);
}

TEST(Exactness, CuttingTheWorkChangesNoBit) {
  constexpr std::size_t kCount = 3000;
  std::mt19937_64 random(7);
  for (const DataType type : kFloating) {
    for (const Reduction reduction : {Reduction::weighted_sum, Reduction::product}) {
      for (const std::size_t k : {2, 3, 9}) {
        const Inputs inputs = random_inputs(type, k, kCount, k);
        const Bytes whole = combined(type, reduction, inputs.terms, kCount);
        for (int round = 0; round < 20; ++round) {
          Bytes pieces(whole.size());
          for (std::size_t from = 0; from < kCount;) {
            const std::size_t count = std::min<std::size_t>(random() % 400, kCount - from);
            std::vector<Term> terms = inputs.terms;
            for (Term& term : terms) {
              term.data = static_cast<const std::uint8_t*>(term.data) + from * size_of(type);
            }
            const StoreKind store = random() % 2 == 0 ? StoreKind::cached : StoreKind::streaming;
            combine(type, reduction, terms, pieces.data() + from * size_of(type), count, store);
            from += count;
          }
          ASSERT_EQ(pieces, whole) << name(type) << " " << name(reduction);
        }
      }
    }
  }
}

TEST(Exactness, WeightsOfOneAreThePlainSum) {
  constexpr std::size_t kCount = 777;
  for (const DataType type : kFloating) {
    Inputs inputs = random_inputs(type, 5, kCount, 1);
    for (Term& term : inputs.terms) term.weight = 1.0;
    EXPECT_EQ(combined(type, Reduction::weighted_sum, inputs.terms, kCount),
              combined(type, Reduction::sum, inputs.terms, kCount));
  }
}

TEST(Exactness, OneTermIsCopied) {
  constexpr std::size_t kCount = 777;
  for (std::size_t t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    if (type == DataType::bytes) continue;
    const Inputs inputs = random_inputs(type, 1, kCount, t);
    EXPECT_EQ(combined(type, Reduction::sum, inputs.terms, kCount), inputs.data[0]);
    EXPECT_EQ(combined(type, Reduction::max, inputs.terms, kCount, StoreKind::streaming),
              inputs.data[0]);
  }
}

TEST(Exactness, AThousandTermsAreCombinedInTheirOrder) {
  constexpr std::size_t kCount = 150;
  const Inputs inputs = random_inputs(DataType::f32, 1000, kCount, 3);
  std::vector<double> weights;
  for (const Term& term : inputs.terms) weights.push_back(term.weight);
  const Bytes expected =
      reference::combine(DataType::f32, Reduction::weighted_sum, inputs.data, weights);
  for_each_instruction_set([&] {
    EXPECT_EQ(combined(DataType::f32, Reduction::weighted_sum, inputs.terms, kCount), expected);
  });
}

// NaN in any term, at any place of a vector, reaches the result of every floating reduction.
TEST(Exactness, NaNReachesTheResult) {
  constexpr std::size_t kCount = 150;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for_each_instruction_set([&] {
    for (const Reduction reduction : {Reduction::weighted_sum, Reduction::sum, Reduction::product,
                                      Reduction::min, Reduction::max}) {
      for (std::size_t poisoned = 0; poisoned < 3; ++poisoned) {
        std::array<std::vector<float>, 3> x;
        std::vector<Term> terms;
        for (auto& values : x) {
          values.assign(kCount, 1.5f);
          terms.push_back({values.data(), 0.5});
        }
        for (std::size_t i = 0; i < kCount; i += 7) x[poisoned][i] = nan;
        std::vector<float> result(kCount);
        combine(DataType::f32, reduction, terms, result.data(), kCount);
        for (std::size_t i = 0; i < kCount; ++i) {
          ASSERT_EQ(std::isnan(result[i]), i % 7 == 0) << name(reduction) << " " << i;
        }
      }
    }
  });
}

// A NaN of all ones would round to zero if it were treated as a number.
TEST(Exactness, ANaNWeightIsNotRoundedAway) {
  const double all_ones = std::bit_cast<double>(~std::uint64_t{0});
  const std::vector<std::uint16_t> ones(100, 0x3F80);
  std::vector<std::uint16_t> result(ones.size());
  const std::array terms{Term{ones.data(), all_ones}};
  for_each_instruction_set([&] {
    combine(DataType::bf16, Reduction::weighted_sum, terms, result.data(), result.size());
    for (const std::uint16_t bits : result) ASSERT_TRUE(std::isnan(f32_from_bf16(bits)));
  });
}

// Every value of a 16-bit type through load, sum and store: subnormals, infinities and NaN
// included.
TEST(Exactness, EveryHalfSurvivesACopy) {
  std::vector<std::uint16_t> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<std::uint16_t> result(all.size());
  const std::array terms{Term{all.data(), 1.0}};
  for_each_instruction_set([&] {
    for (const auto& [type, infinity] :
         {std::pair{DataType::f16, 0x7C00}, {DataType::bf16, 0x7F80}}) {
      combine(type, Reduction::weighted_sum, terms, result.data(), result.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        const bool nan = (all[i] & 0x7FFF) > infinity;
        ASSERT_EQ(nan ? (result[i] & 0x7FFF) > infinity : result[i] == all[i], true) << i;
      }
    }
  });
}

// Every pair of values of an 8-bit type: subnormals, infinities and NaN, sums beyond the largest number,
// and ties.
TEST(Exactness, EveryTwoBytesAreAddedAsByTheScalarConversion) {
  constexpr std::size_t kCount = 1 << 16;
  std::vector<Bytes> data(2, Bytes(kCount));
  for (std::size_t i = 0; i < kCount; ++i) {
    data[0][i] = static_cast<std::uint8_t>(i);
    data[1][i] = static_cast<std::uint8_t>(i >> 8);
  }
  const std::vector<Term> terms{{data[0].data(), 1.0}, {data[1].data(), 1.0}};
  for (const DataType type : {DataType::e4m3, DataType::e5m2}) {
    const Bytes expected = reference::combine(type, Reduction::sum, data, {1.0, 1.0});
    const int nan = type == DataType::e4m3 ? 0x7F : 0x7D;  // and beyond
    for_each_instruction_set([&] {
      const Bytes sum = combined(type, Reduction::sum, terms, kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        if ((expected[i] & 0x7F) >= nan && (sum[i] & 0x7F) >= nan) continue;
        ASSERT_EQ(sum[i], expected[i]) << name(type) << " " << i;
      }
    });
  }
}

// Sums beyond the largest finite value, and ties between two halves, round as half.h does.
TEST(Exactness, HalvesRoundLikeTheScalarConversion) {
  std::mt19937_64 random(11);
  constexpr std::size_t kCount = 1 << 15;
  for (const DataType type : {DataType::f16, DataType::bf16}) {
    std::vector<Bytes> data(2, Bytes(kCount * 2));
    for (std::size_t i = 0; i < 2 * kCount; ++i) {
      // Any finite or infinite bits: the exponent of all ones keeps an empty mantissa.
      auto bits = static_cast<std::uint16_t>(random());
      const int infinity = type == DataType::f16 ? 0x7C00 : 0x7F80;
      if ((bits & infinity) == infinity) bits = static_cast<std::uint16_t>(infinity);
      std::memcpy(data[i % 2].data() + i / 2 * 2, &bits, 2);
    }
    const std::vector<Term> terms{{data[0].data(), 1.0}, {data[1].data(), 1.0}};
    const Bytes expected = reference::combine(type, Reduction::sum, data, {1.0, 1.0});
    for_each_instruction_set(
        [&] { ASSERT_EQ(combined(type, Reduction::sum, terms, kCount), expected); });
  }
}

}  // namespace
}  // namespace weft
