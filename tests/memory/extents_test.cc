// Extents: the free parts of an address range, against a map of single units.
#include "verbs/memory/extents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <vector>

namespace weft {
namespace {

TEST(Extents, NeighborsBecomeOne) {
  Extents free;
  free.give(0, 64);
  free.give(128, 64);
  EXPECT_EQ(free.take(192, 64), std::nullopt);
  free.give(64, 64);
  EXPECT_EQ(free.take(192, 64), 0u);
  EXPECT_EQ(free.take(1, 1), std::nullopt);
}

TEST(Extents, AlignmentLeavesWhatItSkips) {
  Extents free;
  free.give(64, 1024);
  EXPECT_EQ(free.take(256, 512), 512u);
  EXPECT_EQ(free.take(448, 64), 64u);
  EXPECT_EQ(free.take(320, 64), 768u);
}

TEST(Extents, AlignmentNearTheEndOfTheRangeDoesNotWrapAround) {
  Extents free;
  free.give(~std::uint64_t{0} - 100, 100);
  EXPECT_EQ(free.take(1, 4096), std::nullopt);
}

TEST(Extents, WhatIsFreeMayNotBeFreedAgain) {
  Extents free;
  free.give(0, 128);
  EXPECT_DEATH(free.give(64, 64), "freed twice");
  EXPECT_DEATH(free.give(127, 64), "freed twice");
}

// The first offset at which so many free units are, by looking at all.
std::optional<std::uint64_t> first_fit(const std::vector<bool>& used, std::uint64_t units,
                                       std::uint64_t alignment) {
  for (std::uint64_t offset = 0; offset + units <= used.size(); offset += alignment) {
    const auto begin = used.begin() + static_cast<std::ptrdiff_t>(offset);
    if (std::none_of(begin, begin + static_cast<std::ptrdiff_t>(units), std::identity()))
      return offset;
  }
  return std::nullopt;
}

TEST(Extents, RandomTakesNeverOverlapAndAllComesBack) {
  constexpr std::uint64_t kUnits = 512;
  std::mt19937_64 random(7);  // NOLINT: seeded, so that a failure repeats
  Extents free;
  free.give(0, kUnits);
  std::vector<bool> used(kUnits, false);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0 && !taken.empty()) {
      const std::size_t at = random() % taken.size();
      const auto [offset, units] = std::exchange(taken[at], taken.back());
      taken.pop_back();
      std::fill_n(used.begin() + static_cast<std::ptrdiff_t>(offset), units, false);
      free.give(offset, units);
      continue;
    }
    const std::uint64_t units = 1 + random() % 40;
    const std::uint64_t alignment = std::uint64_t{1} << random() % 6;
    const auto offset = free.take(units, alignment);
    ASSERT_EQ(offset, first_fit(used, units, alignment)) << step;
    if (!offset) continue;
    ASSERT_EQ(*offset % alignment, 0u);
    for (std::uint64_t unit = *offset; unit < *offset + units; ++unit) {
      ASSERT_FALSE(used.at(unit));
      used[unit] = true;
    }
    taken.emplace_back(*offset, units);
  }
  for (const auto& [offset, units] : taken) free.give(offset, units);
  EXPECT_EQ(free.take(kUnits, 1), 0u);
}

}  // namespace
}  // namespace weft
