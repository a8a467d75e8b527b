// reduce and reduce_scatter: every algorithm at every size, and which one is chosen.
#include <gtest/gtest.h>

#include "tests/plan/plans.h"

namespace weft {
namespace {

constexpr std::size_t kSmall = 64;
constexpr std::size_t kLarge = std::size_t{64} << 20;

Plans reduce_plans(int size, Rank root, std::size_t bytes, Shape shape) {
  return plans_of(size, [&](Rank rank) { return plan_reduce(rank, size, root, bytes, shape); });
}
Plans reduce_scatter_plans(int size, Shape shape) {
  return plans_of(size, [&](Rank rank) { return plan_reduce_scatter(rank, size, kSmall, shape); });
}

void expect_reduce(int size, Rank root, std::size_t bytes) {
  for (const Shape shape : {kApart, kInPlace}) {
    expect_verified(reduce_plans(size, root, bytes, shape),
                    {.operation = Collective::reduce, .shape = shape, .root = root});
  }
}

TEST(Reduce, EveryRootUpTo20Ranks) {
  for (int size = 1; size <= 20; ++size) {
    for (Rank root = 0; root < size; ++root) {
      expect_reduce(size, root, kSmall);
      expect_reduce(size, root, kLarge);
    }
  }
}

TEST(Reduce, SomeRootsOfManyRanks) {
  for (const int size : {33, 64, 65, 100}) {
    for (const Rank root : {0, size / 2, size - 1}) {
      expect_reduce(size, root, kSmall);
      expect_reduce(size, root, kLarge);
    }
  }
  expect_reduce(1000, 333, kSmall);
}

TEST(Reduce, FollowsRanksAndBytes) {
  const auto algorithm = [](int size, std::size_t bytes) {
    return plan_reduce(0, size, 0, bytes, kApart).plan.algorithm;
  };
  EXPECT_EQ(algorithm(4, kSmall), "direct");
  EXPECT_EQ(algorithm(4, kLarge), "split");
  EXPECT_EQ(algorithm(64, kSmall), "binomial");
  EXPECT_EQ(algorithm(64, kLarge), "split");
  EXPECT_EQ(algorithm(65, kLarge), "binomial");
}

TEST(ReduceScatter, UpTo64RanksAndMany) {
  for (int size = 1; size <= 64; size += size < 20 ? 1 : 4) {
    for (const Shape shape : {kApart, kInPlace}) {
      expect_verified(reduce_scatter_plans(size, shape),
                      {.operation = Collective::reduce_scatter, .shape = shape});
    }
  }
  for (const int size : {65, 120}) {
    expect_verified(reduce_scatter_plans(size, kInPlace),
                    {.operation = Collective::reduce_scatter, .shape = kInPlace});
  }
}

TEST(ReduceScatter, AShareCountedTwiceIsCaught) {
  Plans plans = reduce_scatter_plans(66, kApart);
  plans[3].plan.operands[1].weight = {};  // a raw term of the ring that nobody scales
  const Status status = verify(plans, {.operation = Collective::reduce_scatter});
  EXPECT_EQ(status.code(), Code::invalid_argument) << status.to_string();
}

}  // namespace
}  // namespace weft
