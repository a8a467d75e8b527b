// How operations are cut over lanes.
#include "scheduler/stripes/stripes.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft {
namespace {

TEST(Stripes, CoverAllElementsOnce) {
  for (const std::vector<std::uint32_t>& speeds :
       {std::vector<std::uint32_t>{1, 1}, {1, 1, 1}, {400'000, 100'000}, {1, 0, 2}, {7}}) {
    for (const std::size_t elements : {0UL, 1UL, 15UL, 16UL, 1000UL, 1'000'003UL}) {
      std::size_t end = 0;
      for (std::size_t stripe = 0; stripe < speeds.size(); ++stripe) {
        const Range range = stripe_range(elements, 16, speeds, stripe);
        EXPECT_EQ(range.offset, end);
        EXPECT_EQ(range.offset % 16, 0U);
        end = range.offset + range.count;
      }
      EXPECT_EQ(end, elements);
    }
  }
  EXPECT_EQ(stripe_range(1000, 1, std::vector<std::uint32_t>{300, 100}, 0).count, 750U);
}

TEST(Stripes, AreOfLargeOperationsByElementOnly) {
  constexpr std::size_t kMib = std::size_t{1} << 20;
  EXPECT_EQ(stripes_of(kMib, 8), 1U);
  EXPECT_EQ(stripes_of(3 * kMib, 8), 3U);
  EXPECT_EQ(stripes_of(64 * kMib, 8), 8U);
  EXPECT_TRUE(is_cut(Collective::allreduce) && is_cut("allreduce"));
  EXPECT_FALSE(is_cut(Collective::allgather) || is_cut("allgather"));
}

TEST(Stripes, LanesWithoutASettingLeaveHalfOfTheCores) {
  EXPECT_EQ(automatic_lanes(8, 2, 2), 1);
  EXPECT_EQ(automatic_lanes(0, 4, 16), 2);
  EXPECT_EQ(automatic_lanes(0, 1, 64), 4);
  EXPECT_EQ(automatic_lanes(8, 1, 64), 8);
}

TEST(Stripes, PreferRailsEvenlyIfTheyAreSmall) {
  constexpr std::size_t kSmall = std::size_t{2} << 20;
  EXPECT_EQ(preferred_rail(kSmall, 2, 0, 2), 0);
  EXPECT_EQ(preferred_rail(kSmall, 2, 1, 2), 1);
  EXPECT_EQ(preferred_rail(kSmall, 2, 3, 4), 1);
  EXPECT_EQ(preferred_rail(kSmall, 2, 2, 3), kAnyRail);  // one left over
  EXPECT_EQ(preferred_rail(kSmall, 4, 0, 2), kAnyRail);  // two rails would stand idle
  EXPECT_EQ(preferred_rail(8 * kSmall, 2, 0, 2), kAnyRail);
  EXPECT_EQ(preferred_rail(kSmall, 0, 0, 2), kAnyRail);
}

}  // namespace
}  // namespace weft
