// neighbor_allreduce and neighbor_allgather on graphs of all kinds, empty neighbor sets among them.
#include <gtest/gtest.h>

#include "tests/plan/plans.h"

namespace weft {
namespace {

void expect_neighbor_operations(const std::vector<View>& views) {
  for (const Shape shape : {kApart, kInPlace}) {
    expect_verified(neighbor_allreduce_plans(views, shape),
                    {.operation = Collective::neighbor_allreduce, .shape = shape});
  }
  expect_verified(neighbor_allgather_plans(views), {.operation = Collective::neighbor_allgather});
}

TEST(Neighbor, RandomDigraphsUpTo64Ranks) {
  for (int size = 1; size <= 64; ++size) {
    for (const std::uint32_t percent : {0U, 5U, 30U, 100U}) {
      expect_neighbor_operations(random_views(size, percent, static_cast<std::uint64_t>(size)));
    }
  }
}

TEST(Neighbor, OneWayStarsHaveEmptySetsOnOneSide) {
  expect_neighbor_operations(views_of(16, [](Rank from, Rank) { return from == 5; }));
  expect_neighbor_operations(views_of(16, [](Rank, Rank to) { return to == 5; }));
}

TEST(Neighbor, SparseGraphsOf1000Ranks) {
  expect_neighbor_operations(exponential_views(1000));
  expect_neighbor_operations(random_views(1000, 1, 7));
}

TEST(Neighbor, AllreducePassesMemoryOnceAndSendsOnce) {
  const Plan plan = plan_neighbor_allreduce({1, 4, {0, 3}, {2}}, kApart);
  ASSERT_EQ(plan.steps.size(), 2U);
  EXPECT_EQ(plan.steps[0].kind, Step::Kind::send);
  EXPECT_EQ(plan.partition_of(Buffer::scratch).kind, Partition::Kind::none);
}

TEST(Neighbor, AllreduceSumsInRankOrder) {
  const Plan plan = plan_neighbor_allreduce({2, 5, {0, 1, 4}, {}}, kApart);
  ASSERT_EQ(plan.operands.size(), 4U);
  EXPECT_EQ(plan.operands[1].edge, 1U);
  EXPECT_EQ(plan.operands[2].kind, Operand::Kind::local);
  EXPECT_EQ(plan.operands[3].weight, (Weight{Weight::Kind::edge, 2}));
}

TEST(Neighbor, WithoutReadersInPlaceNeedsNoScratch) {
  const Plan plan = plan_neighbor_allreduce({2, 5, {0, 1}, {}}, kInPlace);
  EXPECT_EQ(plan.steps.size(), 1U);
  EXPECT_EQ(plan.partition_of(Buffer::scratch).kind, Partition::Kind::none);
}

}  // namespace
}  // namespace weft
