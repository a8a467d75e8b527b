// The static schedule on every shape up to 16 machines x 16 ranks.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <numeric>

#include "scheduler/partial/partial.h"

namespace weft {
namespace {

std::vector<Rank> group_of(std::uint64_t iteration, MachineShape shape, Rank rank) {
  return static_group(iteration, shape, rank).value();
}

TEST(StaticSchedule, IsTheOneOfThePaperOnFourMachinesOfFour) {
  constexpr MachineShape kShape{4, 4};
  for (const std::uint64_t first : {0U, 4U, 400U}) {
    for (int machine = 0; machine < 4; ++machine) {
      const Rank base = 4 * machine;
      const std::vector<Rank> all = {base, base + 1, base + 2, base + 3};
      EXPECT_EQ(group_of(first, kShape, base), (std::vector<Rank>{0, 4, 8, 12}));
      EXPECT_EQ(group_of(first, kShape, base + 1), (std::vector<Rank>{base + 1}));
      EXPECT_EQ(group_of(first, kShape, base + 2), (std::vector<Rank>{base + 2, base + 3}));
      EXPECT_EQ(group_of(first + 2, kShape, base), (std::vector<Rank>{base, base + 3}));
      EXPECT_EQ(group_of(first + 2, kShape, base + 2), (std::vector<Rank>{base + 2}));
      const Rank low = machine % 2 == 0 ? 1 : 5;
      EXPECT_EQ(group_of(first + 2, kShape, base + 1), (std::vector<Rank>{low, low + 8}));
      for (int local = 0; local < 4; ++local) {
        EXPECT_EQ(group_of(first + 1, kShape, base + local), all);
        EXPECT_EQ(group_of(first + 3, kShape, base + local), all);
      }
    }
  }
}

// All members of a group name the same group: so no rank is in two of them.
void expect_whole(const std::vector<int>& locals) {
  SCOPED_TRACE(fmt::format("{}", fmt::join(locals, " + ")));
  const int n = std::reduce(locals.begin(), locals.end());
  std::vector<Rank> part(static_cast<std::size_t>(n));  // the lowest rank that is connected
  std::iota(part.begin(), part.end(), 0);
  for (std::uint64_t iteration = 0; iteration < kStaticPeriod; ++iteration) {
    for (Rank rank = 0; rank < n; ++rank) {
      const std::vector<Rank> group = static_group(iteration, locals, rank).value();
      ASSERT_EQ(std::ranges::count(group, rank), 1);
      ASSERT_EQ(std::ranges::adjacent_find(group, std::greater_equal<>()), group.end());
      if (group.front() != rank) continue;
      for (const Rank member : group) {
        ASSERT_EQ(static_group(iteration, locals, member).value(), group) << member;
        const Rank from = part[static_cast<std::size_t>(member)];
        std::ranges::replace(part, from, part[static_cast<std::size_t>(rank)]);
      }
    }
  }
  EXPECT_EQ(std::ranges::count(part, part.front()), n);
}

TEST(StaticSchedule, NeverConflictsAndConnectsEverybodyOnAllShapesUpToSixteen) {
  for (int machines = 1; machines <= 16; ++machines) {
    for (int locals = 1; locals <= 16; ++locals)
      expect_whole(std::vector<int>(static_cast<std::size_t>(machines), locals));
  }
}

// As after deaths.
TEST(StaticSchedule, MachinesMayHaveDifferentNumbersOfRanks) {
  std::vector<int> locals = {1, 1, 1, 1, 1};
  do {
    expect_whole(locals);
    std::size_t next = 0;
    while (next < locals.size() && ++locals[next] > 4) locals[next++] = 1;
  } while (std::ranges::max(locals) > 1);
  EXPECT_EQ(*static_group(2, std::vector<int>{3, 1}, 1), (std::vector<Rank>{1, 3}));
}

TEST(StaticSchedule, RefusesShapesAndRanksThatThereAreNot) {
  EXPECT_EQ(static_group(0, {0, 4}, 0).status().text(),
            "static groups of 0 machines x 4 ranks: 1 to 1048576 ranks are possible");
  EXPECT_FALSE(static_group(0, {1 << 20, 2}, 0).ok());
  EXPECT_EQ(static_group(0, std::vector<int>{3, 0}, 0).status().text(),
            "static groups: 0 ranks on a machine; 1 to 1048576 in all are possible");
  EXPECT_FALSE(static_group(0, std::vector<int>{}, 0).ok());
  for (const Rank rank : {-1, 16}) {
    const Status status = static_group(0, {4, 4}, rank).status();
    EXPECT_EQ(status.text(), fmt::format("static groups: rank {} is outside 0…15", rank));
    EXPECT_EQ(status.rank(), rank);
  }
}

}  // namespace
}  // namespace weft
