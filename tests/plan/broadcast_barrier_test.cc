// broadcast from every root, in one piece and in many; barriers of every size.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/plan/plans.h"

namespace weft {
namespace {

constexpr std::size_t kSmall = 64;
constexpr std::size_t kLarge = 1 << 20;  // several pieces

void expect_broadcast(int size, Rank root) {
  for (const Shape shape : {kApart, kInPlace}) {
    for (const std::size_t bytes : {kSmall, kLarge}) {
      expect_verified(broadcast_plans(size, root, bytes, shape),
                      {.operation = Collective::broadcast, .shape = shape, .root = root});
    }
  }
}

TEST(Broadcast, EveryRootUpTo20Ranks) {
  for (int size = 1; size <= 20; ++size) {
    for (Rank root = 0; root < size; ++root) expect_broadcast(size, root);
  }
}

TEST(Broadcast, SomeRootsUpTo64Ranks) {
  for (int size = 21; size <= 64; ++size) {
    for (const Rank root : {0, 1, size / 2, size - 1}) expect_broadcast(size, root);
  }
}

TEST(Broadcast, AThousandRanks) {
  for (const Rank root : {0, 333, 999}) expect_broadcast(1000, root);
}

TEST(Broadcast, LargestSubtreeIsServedFirst) {
  const Planned root = plan_broadcast(3, 16, 3, kSmall, kApart);
  ASSERT_EQ(root.plan.edges.size(), 4U);
  EXPECT_EQ(root.view.out[root.plan.edges.front()], (3 + 8) % 16);
  EXPECT_EQ(root.view.out[root.plan.edges.back()], 3 + 1);
}

TEST(Broadcast, PiecesFollowBytesWithinBounds) {
  const auto pieces = [](std::size_t bytes) {
    return plan_broadcast(0, 64, 0, bytes, kApart).plan.partition_of(Buffer::output).blocks;
  };
  EXPECT_EQ(pieces(0), 1U);
  EXPECT_EQ(pieces(kLarge), 4U);
  EXPECT_EQ(pieces(std::size_t{1} << 40), 16U);
}

TEST(Barrier, UpTo64RanksAndAThousand) {
  for (int size = 1; size <= 64; ++size) {
    expect_verified(barrier_plans(size), {.operation = Collective::barrier});
  }
  expect_verified(barrier_plans(1000), {.operation = Collective::barrier});
}

TEST(Barrier, FewRanksNeedOneRound) {
  EXPECT_EQ(plan_barrier(0, 8).plan.steps.size(), 2U);
  EXPECT_EQ(plan_barrier(0, 9).plan.steps.size(), 8U);  // four rounds of a send and a wait
}

}  // namespace
}  // namespace weft
