// The data of measurements: a check that lets a wrong element pass would check nothing.
#include "tools/weft/perf/values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/kernels/kernels.h"

namespace weft {
namespace {

constexpr std::size_t kCount = 3000;  // not a whole number of the reference's blocks

class Values : public testing::TestWithParam<DataType> {
 protected:
  using Bytes = std::vector<std::byte>;

  [[nodiscard]] Bytes input(Rank rank, std::uint64_t lap) const {
    Bytes bytes(kCount * size_of(GetParam()));
    fill(GetParam(), bytes.data(), kCount, rank, lap);
    return bytes;
  }

  // Rank 1's sum of ranks 0, 1 and 2 as the kernels make it.
  [[nodiscard]] Bytes result(std::uint64_t lap) const {
    const Bytes a = input(0, lap);
    const Bytes b = input(1, lap);
    const Bytes c = input(2, lap);
    const Term terms[] = {{a.data(), 0.5}, {b.data(), 0.25}, {c.data(), 0.25}};
    Bytes sum(a.size());
    combine(GetParam(), is_floating(GetParam()) ? Reduction::weighted_sum : Reduction::sum, terms,
            sum.data(), kCount);
    return sum;
  }

  Recipe recipe_{{{0, 0.5}, {1, 0.25}, {2, 0.25}}, {}, false};
};

TEST_P(Values, TheKernelsResultIsAccepted) {
  for (std::uint64_t lap = 0; lap < 5; ++lap) {
    const Status status = compare(GetParam(), result(lap).data(), kCount, recipe_, 1, lap);
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
}

TEST_P(Values, AWrongElementIsNamed) {
  Bytes wrong = result(3);
  const Bytes other = input(2, 9);
  const std::size_t place = 2999 * size_of(GetParam());
  std::memcpy(wrong.data() + place, other.data() + place, size_of(GetParam()));
  const Status status = compare(GetParam(), wrong.data(), kCount, recipe_, 1, 3);
  ASSERT_EQ(status.code(), Code::mismatch);
  EXPECT_NE(status.text().find("rank 1: element 2999"), std::string_view::npos) << status.text();
}

TEST_P(Values, AnotherLapsResultIsRefused) {
  EXPECT_FALSE(compare(GetParam(), result(4).data(), kCount, recipe_, 1, 5).ok());
}

TEST_P(Values, ConcatenatedInputsAreComparedPartByPart) {
  const Recipe both{{{0, 1}, {2, 1}}, {}, true};
  Bytes parts = input(0, 7);
  const Bytes second = input(2, 7);
  parts.insert(parts.end(), second.begin(), second.end());
  EXPECT_TRUE(compare(GetParam(), parts.data(), kCount, both, 1, 7).ok());
  parts.back() = ~parts.back();
  EXPECT_FALSE(compare(GetParam(), parts.data(), kCount, both, 1, 7).ok());
}

INSTANTIATE_TEST_SUITE_P(Types, Values,
                         testing::Values(DataType::e4m3, DataType::e5m2, DataType::f16,
                                         DataType::bf16, DataType::f32, DataType::f64,
                                         DataType::i32, DataType::i64),
                         [](const auto& test) { return std::string(name(test.param)); });

}  // namespace
}  // namespace weft
