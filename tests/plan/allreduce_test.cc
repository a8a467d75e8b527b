// allreduce: every algorithm is right at every size, and the automatic choice says why.
#include <gtest/gtest.h>

#include "tests/base/sanitized.h"
#include "tests/plan/plans.h"

namespace weft {
namespace {

constexpr AllreduceAlgorithm kAlgorithms[] = {
    AllreduceAlgorithm::direct,           AllreduceAlgorithm::split, AllreduceAlgorithm::ring,
    AllreduceAlgorithm::halving_doubling, AllreduceAlgorithm::bcube, AllreduceAlgorithm::torus,
    AllreduceAlgorithm::multi_ring};

class Allreduce : public testing::TestWithParam<AllreduceAlgorithm> {};

TEST_P(Allreduce, IsRightUpTo64RanksInEveryShape) {
  for (int size = 1; size <= 64; ++size) {
    for (const Shape shape : {kApart, kInPlace}) {
      if (!check_allreduce(GetParam(), size, {}).ok()) continue;
      expect_verified(allreduce_plans(size, 4096, shape, GetParam()),
                      {.operation = Collective::allreduce, .shape = shape});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Allreduce, testing::ValuesIn(kAlgorithms),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST(AllreduceTable, SaysTheAlgorithmOfEverySize) {
  const Result<AllreduceTable> table = AllreduceTable::parse("direct:16384,auto:1048576,ring");
  ASSERT_TRUE(table.ok()) << table.status().to_string();
  EXPECT_EQ(table->at(0), AllreduceAlgorithm::direct);
  EXPECT_EQ(table->at(16384), AllreduceAlgorithm::direct);
  EXPECT_EQ(table->at(16385), AllreduceAlgorithm::automatic);
  EXPECT_EQ(table->at(std::size_t{1} << 40), AllreduceAlgorithm::ring);
  EXPECT_EQ(AllreduceTable::parse("mesh")->at(5), AllreduceAlgorithm::split);
  EXPECT_TRUE(AllreduceTable::parse("auto")->is_by_rule());
  EXPECT_EQ(AllreduceTable().at(5), AllreduceAlgorithm::automatic);
}

TEST(AllreduceTable, RefusesWhatIsNoList) {
  for (const char* text :
       {"", "fast", "nccl", "nccl:5,ring", "ring,direct", "ring:5", "ring:5,", ",ring",
        "ring:x,direct", "ring:-1,direct", "ring:9,direct:9,ring", "ring:9,direct:8,ring",
        "ring::5,direct", "ring:99999999999999999999,direct"})
    EXPECT_EQ(AllreduceTable::parse(text).status().code(), Code::invalid_argument) << text;
}

TEST(AllreduceAtScale, SparseAlgorithmsAreRightAt1000Ranks) {
  constexpr int kRanks = searched(1000, 200);
  for (const auto algorithm : {AllreduceAlgorithm::ring, AllreduceAlgorithm::halving_doubling}) {
    const Status status = verify(allreduce_plans(kRanks, 4096, kInPlace, algorithm),
                                 {.operation = Collective::allreduce, .shape = kInPlace});
    EXPECT_TRUE(status.ok()) << name(algorithm) << ": " << status.to_string();
  }
}

TEST(AllreduceAtScale, CompleteAlgorithmsAreRightAt160Ranks) {
  for (const auto algorithm : {AllreduceAlgorithm::direct, AllreduceAlgorithm::split}) {
    const Status status = verify(allreduce_plans(160, 4096, kInPlace, algorithm),
                                 {.operation = Collective::allreduce, .shape = kInPlace});
    EXPECT_TRUE(status.ok()) << name(algorithm) << ": " << status.to_string();
  }
}

TEST(AllreduceAtScale, EdgesPerRankStayFew) {
  EXPECT_EQ(plan_allreduce(7, 1000, 1 << 30, kApart, AllreduceAlgorithm::ring).view.out.size(), 1U);
  const Planned core = plan_allreduce(7, 1000, 1024, kApart, AllreduceAlgorithm::halving_doubling);
  EXPECT_EQ(core.view.out.size(), 10U);  // log2 512 partners and one rank beyond the core
}

struct Chosen {
  int size;
  std::size_t bytes;
  std::string_view algorithm;
};

TEST(AllreduceChoice, FollowsBytesAndSize) {
  const Chosen cases[] = {
      {1, 1 << 20, "copy"},   {2, 256 << 10, "direct"},    {2, (256 << 10) + 1, "split"},
      {8, 8 << 10, "direct"}, {8, (8 << 10) + 1, "split"}, {64, 1 << 10, "direct"},
      {64, 1 << 30, "split"}, {65, 4, "halving_doubling"}, {65, 65 * (16 << 10), "ring"}};
  for (const Chosen& chosen : cases) {
    const Plan plan = plan_allreduce(0, chosen.size, chosen.bytes, kApart).plan;
    EXPECT_EQ(plan.algorithm, chosen.algorithm) << chosen.bytes << " bytes, " << chosen.size;
  }
}

TEST(AllreduceChoice, ReasonNamesBytesRanksAndRule) {
  const std::string reason = plan_allreduce(0, 8, 123'456, kApart).plan.reason;
  EXPECT_EQ(reason, "123456 bytes on 8 ranks: n * bytes is above 65536, reading less is best");
}

TEST(AllreduceChoice, AllRanksChooseTheSame) {
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{1} << 24}) {
    for (const int size : {2, 3, 8, 64, 65, 100}) {
      expect_verified(allreduce_plans(size, bytes, kApart, AllreduceAlgorithm::automatic),
                      {.operation = Collective::allreduce});
    }
  }
}

Layout layout_of_machines(const std::vector<int>& ranks) {
  Layout layout;
  for (int machine = 0; machine < std::ssize(ranks); ++machine)
    layout.machine.insert(layout.machine.end(), static_cast<std::size_t>(ranks[machine]), machine);
  layout.rails = 2;
  return layout;
}

TEST(AllreduceUneven, IsRightWhateverIsLeftOfTheRails) {
  constexpr std::size_t kBytes = 64 << 20;
  for (const std::vector<int>& machines : std::vector<std::vector<int>>{
           {1, 1, 1}, {1, 1, 1, 1}, {2, 2, 2}, {1, 2, 3}, {4, 2, 2, 4, 1}, std::vector(16, 1)}) {
    Layout layout = layout_of_machines(machines);
    const auto ranks = static_cast<int>(layout.machine.size());
    for (const double left : {0.25, 0.5}) {
      for (const int hurt : {1, 2}) {
        layout.left.assign(layout.machine.size(), 1.0);
        for (Rank rank = 0; rank < ranks; ++rank)
          if (layout.machine_of(rank) < hurt) layout.left[static_cast<std::size_t>(rank)] = left;
        for (const Shape shape : {kApart, kInPlace}) {
          const Plans plans =
              allreduce_plans(ranks, kBytes, shape, AllreduceAlgorithm::automatic, layout);
          EXPECT_EQ(plans[0].plan.algorithm, "uneven") << plans[0].plan.reason;
          expect_verified(plans, {.operation = Collective::allreduce, .shape = shape});
        }
      }
    }
  }
}

TEST(AllreduceUneven, LeavesEqualPiecesWhereTheyAreBetter) {
  const auto algorithm = [](std::size_t bytes, const Layout& layout) {
    return allreduce_plans(static_cast<int>(layout.machine.size()), bytes, kApart,
                           AllreduceAlgorithm::automatic, layout)[0]
        .plan.algorithm;
  };
  constexpr std::size_t kLarge = 64 << 20;
  Layout layout = layout_of_machines({1, 1, 1, 1});
  layout.left = {1, 1, 0.5, 1};
  EXPECT_EQ(algorithm(kLarge, layout), "uneven");
  EXPECT_NE(algorithm(64 << 10, layout), "uneven");  // waits tell
  layout.left = {1, 1, 0.95, 1};
  EXPECT_NE(algorithm(kLarge, layout), "uneven");  // little is lost
  layout.left = {0.5, 0.5, 0.5, 0.5};
  EXPECT_NE(algorithm(kLarge, layout), "uneven");  // nobody is slower than others
  Layout pair = layout_of_machines({1, 1});
  pair.left = {1, 0.5};
  EXPECT_NE(algorithm(kLarge, pair), "uneven");  // each sends all it has in any case
}

TEST(AllreduceAlone, DoesNothingInPlace) {
  EXPECT_TRUE(plan_allreduce(0, 1, 4096, kInPlace).plan.steps.empty());
  EXPECT_EQ(plan_allreduce(0, 1, 4096, kApart).plan.steps.size(), 1U);
}

}  // namespace
}  // namespace weft
