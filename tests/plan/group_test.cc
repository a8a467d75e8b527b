// Operations of some of the ranks: only they have a part, and groups apart do not meet.
#include <gtest/gtest.h>

#include <array>

#include "tests/plan/plans.h"

namespace weft {
namespace {

TEST(Send, BetweenAnyTwoOfSixRanks) {
  for (Rank from = 0; from < 6; ++from) {
    for (Rank to = 0; to < 6; ++to) {
      if (from == to) continue;
      const std::array<Rank, 2> members{from, to};
      expect_verified(send_plans(6, from, to), {.operation = Collective::send, .members = members});
    }
  }
}

TEST(Send, ToTheWrongRankIsCaught) {
  Plans plans = send_plans(4, 1, 2);
  std::swap(plans[2].plan, plans[3].plan);
  const std::array<Rank, 2> members{1, 2};
  EXPECT_FALSE(verify(plans, {.operation = Collective::send, .members = members}).ok());
}

TEST(PairAverage, PairsApartAndRanksAlone) {
  for (const Shape shape : {kApart, kInPlace}) {
    expect_verified(pair_average_plans({{0, 1}}, 2, shape),
                    {.operation = Collective::neighbor_allreduce, .shape = shape});
    expect_verified(pair_average_plans({{0, 5}, {4, 1}, {3, 2}}, 6, shape),
                    {.operation = Collective::neighbor_allreduce, .shape = shape});
  }
}

TEST(GroupAverage, GroupsOfManySizesAmong70Ranks) {
  std::vector<Rank> group;
  for (Rank rank = 0; rank < 70; ++rank) {
    if (rank % 7 == 3) continue;
    group.push_back(rank);
    if (group.size() > 9 && group.size() % 17 != 0) continue;
    for (const Shape shape : {kApart, kInPlace}) {
      for (const std::size_t bytes : {std::size_t{64}, std::size_t{4} << 20}) {
        expect_verified(group_average_plans(70, group, bytes, shape),
                        {.operation = Collective::group_average, .shape = shape, .members = group});
      }
    }
  }
}

TEST(GroupAverage, OfAnotherGroupIsCaught) {
  const std::vector<Rank> group{0, 2, 3};
  const std::vector<Rank> other{0, 2, 4};
  EXPECT_FALSE(verify(group_average_plans(5, other, 64, kApart),
                      {.operation = Collective::group_average, .members = group})
                   .ok());
}

}  // namespace
}  // namespace weft
