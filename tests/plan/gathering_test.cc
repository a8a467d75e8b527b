// Gatherings and scatterings: parts of unequal size, empty ones among them, go to the right places.
#include <gtest/gtest.h>

#include "tests/plan/plans.h"

namespace weft {
namespace {

constexpr std::size_t kSmall = 64;
constexpr std::size_t kLarge = std::size_t{64} << 20;

Plans allgather_plans(int size, std::size_t bytes, Shape shape) {
  return plans_of(size, [&](Rank rank) { return plan_allgather(rank, size, bytes, shape); });
}
Plans alltoall_plans(int size, Shape shape) {
  return plans_of(size, [&](Rank rank) { return plan_alltoall(rank, size, shape); });
}
Plans gather_plans(int size, Rank root, Shape shape) {
  return plans_of(size, [&](Rank rank) { return plan_gather(rank, size, root, shape); });
}
Plans scatter_plans(int size, Rank root, Shape shape) {
  return plans_of(size, [&](Rank rank) { return plan_scatter(rank, size, root, shape); });
}

void expect_everything(int size) {
  for (const Shape shape : {kApart, kInPlace}) {
    expect_verified(allgather_plans(size, kSmall, shape),
                    {.operation = Collective::allgather, .shape = shape});
    expect_verified(alltoall_plans(size, shape),
                    {.operation = Collective::alltoall, .shape = shape});
    for (const Rank root : {0, size / 2, size - 1}) {
      expect_verified(gather_plans(size, root, shape),
                      {.operation = Collective::gather, .shape = shape, .root = root});
      expect_verified(scatter_plans(size, root, shape),
                      {.operation = Collective::scatter, .shape = shape, .root = root});
    }
  }
}

TEST(Gathering, UpTo64RanksFromSeveralRoots) {
  for (int size = 1; size <= 20; ++size) expect_everything(size);
  for (const int size : {31, 32, 33, 63, 64}) expect_everything(size);
}

TEST(Gathering, OfManyRanks) {
  for (const int size : {65, 128, 1000}) {
    expect_verified(allgather_plans(size, kSmall, kApart), {.operation = Collective::allgather});
  }
  for (const int size : {65, 120}) {
    expect_verified(allgather_plans(size, kLarge, kInPlace),
                    {.operation = Collective::allgather, .shape = kInPlace});
  }
  expect_verified(gather_plans(1000, 333, kApart), {.operation = Collective::gather, .root = 333});
  expect_verified(scatter_plans(1000, 333, kApart),
                  {.operation = Collective::scatter, .root = 333});
  expect_verified(alltoall_plans(90, kInPlace),
                  {.operation = Collective::alltoall, .shape = kInPlace});
}

TEST(Allgather, FollowsRanksAndBytes) {
  const auto algorithm = [](int size, std::size_t bytes) {
    return plan_allgather(0, size, bytes, kApart).plan.algorithm;
  };
  EXPECT_EQ(algorithm(2, kSmall), "direct");
  EXPECT_EQ(algorithm(64, kLarge), "direct");
  EXPECT_EQ(algorithm(65, kSmall), "dissemination");
  EXPECT_EQ(algorithm(65, kLarge), "ring");
  EXPECT_EQ(plan_allgather(7, 1000, kSmall, kApart).view.out.size(), 10U);
  EXPECT_EQ(plan_allgather(7, 1000, kLarge, kApart).view.out.size(), 1U);
}

TEST(Allgather, ATurnedBlockIsCaught) {
  Plans plans = allgather_plans(5, kSmall, kApart);
  std::vector<Step>& steps = plans[2].plan.steps;
  std::swap(steps[2].slice, steps[3].slice);
  const Status status = verify(plans, {.operation = Collective::allgather});
  EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
}

// Without scratch each rank would wait until the other has read what it is about to overwrite.
TEST(Alltoall, InPlaceWithoutScratchIsCaught) {
  const Status status =
      verify(alltoall_plans(4, kApart), {.operation = Collective::alltoall, .shape = kInPlace});
  EXPECT_FALSE(status.ok());
}

TEST(Gathering, MoreBlocksThanGivenAreCaught) {
  Plans plans = gather_plans(4, 1, kApart);
  plans[1].plan.partition[1].blocks = 5;
  const Status status = verify(plans, {.operation = Collective::gather, .root = 1});
  EXPECT_NE(status.text().find("rank 1: 5 given blocks where the operation has 4"),
            std::string_view::npos)
      << status.to_string();
}

}  // namespace
}  // namespace weft
