// Names, sizes and the rule of which reduction goes with which type.
#include <gtest/gtest.h>

#include <vector>

#include "engine/kernels/kernels.h"

namespace weft {
namespace {

TEST(DataType, NamesFindTheirTypes) {
  for (std::size_t i = 0; i < kDataTypes; ++i) {
    const auto type = static_cast<DataType>(i);
    ASSERT_TRUE(data_type(name(type)).ok()) << name(type);
    EXPECT_EQ(data_type(name(type)).value(), type);
  }
}

TEST(DataType, AnUnknownNameIsAnErrorThatListsTheKnownOnes) {
  const Status status = data_type("f8").status();
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_EQ(
      status.text(),
      "no data type is named 'f8'; there are f16, bf16, f32, f64, i8, u8, i32, u32, i64, u64, "
      "i16, u16, bytes, e4m3, e5m2");
}

// Errors name what a peer has sent.
TEST(DataType, ANumberThatIsNoneHasANameToo) {
  EXPECT_EQ(name(static_cast<DataType>(kDataTypes)), "an unknown type");
  EXPECT_EQ(name(static_cast<DataType>(255)), "an unknown type");
}

TEST(DataType, SizesAndKinds) {
  EXPECT_EQ(size_of(DataType::bf16), 2u);
  EXPECT_EQ(size_of(DataType::f32), 4u);
  EXPECT_EQ(size_of(DataType::i8), 1u);
  EXPECT_EQ(size_of(DataType::u64), 8u);
  EXPECT_EQ(size_of(DataType::i16), 2u);
  EXPECT_EQ(size_of(DataType::bytes), 1u);
  EXPECT_EQ(size_of(DataType::e4m3), 1u);
  EXPECT_TRUE(is_floating(DataType::e5m2));
  EXPECT_TRUE(is_floating(DataType::f16));
  EXPECT_TRUE(is_floating(DataType::f64));
  EXPECT_FALSE(is_floating(DataType::i8));
}

TEST(Reduction, WeightedSumsOfIntegersAreRefused) {
  const Status status = check_reduction(DataType::i32, Reduction::weighted_sum);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_EQ(status.text(), "weighted_sum of i32 has no meaning: it needs a floating type");
}

TEST(Reduction, BitOperationsOnFloatingTypesAreRefused) {
  const Status status = check_reduction(DataType::bf16, Reduction::bit_xor);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_EQ(status.text(), "bit_xor of bf16 has no meaning: it needs an integer type");
}

TEST(Reduction, BytesAreNotComputedWith) {
  for (std::size_t r = 0; r < kReductions; ++r) {
    const auto reduction = static_cast<Reduction>(r);
    const Status status = check_reduction(DataType::bytes, reduction);
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_EQ(status.text(), std::string(name(reduction)) +
                                 " of bytes has no meaning: they are moved, and not computed with");
  }
}

TEST(Reduction, EverythingThatIsAllowedHasAFunction) {
  std::size_t allowed = 0;
  for (std::size_t t = 0; t < kDataTypes; ++t) {
    for (std::size_t r = 0; r < kReductions; ++r) {
      const auto type = static_cast<DataType>(t);
      const auto reduction = static_cast<Reduction>(r);
      if (!check_reduction(type, reduction).ok()) continue;
      EXPECT_NE(select_combine(type, reduction), nullptr);
      ++allowed;
    }
  }
  EXPECT_EQ(allowed, 6u * 5u + 8u * 7u);
}

TEST(Reduction, SelectingOrCallingAgainstTheRulesIsABug) {
  EXPECT_DEATH((void)select_combine(DataType::u8, Reduction::weighted_sum), "check_reduction");
  float result = 0;
  EXPECT_DEATH(combine(DataType::f32, Reduction::sum, {}, &result, 1), "needs a term");
}

}  // namespace
}  // namespace weft
