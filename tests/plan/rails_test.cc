// Allreduces that keep several rails busy: right in every shape that rails give them, with no byte
// too many, and with every interface busy in every step.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "tests/plan/plans.h"

namespace weft {
namespace {

constexpr AllreduceAlgorithm kAlgorithms[] = {AllreduceAlgorithm::bcube, AllreduceAlgorithm::torus,
                                              AllreduceAlgorithm::multi_ring};

Layout with_rails(int rails) {
  Layout layout;
  layout.rails = rails;
  return layout;
}

std::size_t sum_of(const std::vector<Sent>& messages) {
  return std::accumulate(messages.begin(), messages.end(), std::size_t{0},
                         [](std::size_t sum, const Sent& sent) { return sum + sent.elements; });
}

class OnRails : public testing::TestWithParam<AllreduceAlgorithm> {};

TEST_P(OnRails, IsRightWithAnyNumberOfRails) {
  for (const int size : {2, 3, 4, 6, 8, 9, 12, 16, 25, 27, 30, 36, 64}) {
    for (const int rails : {2, 3, 4, 8}) {
      if (!check_allreduce(GetParam(), size, with_rails(rails)).ok()) continue;
      for (const Shape shape : {kApart, kInPlace}) {
        expect_verified(allreduce_plans(size, 4096, shape, GetParam(), with_rails(rails)),
                        {.operation = Collective::allreduce, .shape = shape});
      }
    }
  }
}

TEST_P(OnRails, EveryRankSendsAllButItsOwnShareTwice) {
  for (const int size : {4, 9, 16, 27, 64}) {
    for (const int rails : {1, 2, 3}) {
      const std::size_t elements = static_cast<std::size_t>(size) * 720;
      for (const Planned& planned :
           allreduce_plans(size, 0, kApart, GetParam(), with_rails(rails))) {
        ASSERT_EQ(sum_of(sent_by(planned, elements)), 2 * (elements - 720)) << size;
      }
    }
  }
}

constexpr std::size_t kLong = std::size_t{64} << 20;

// Messages of many pieces are cut, and the parts that come at the same time are taken in turn.
TEST_P(OnRails, LongMessagesAreRightToo) {
  for (const int size : {4, 9}) {
    for (const Shape shape : {kApart, kInPlace}) {
      expect_verified(allreduce_plans(size, kLong, shape, GetParam(), with_rails(2)),
                      {.operation = Collective::allreduce, .shape = shape});
    }
  }
}

TEST_P(OnRails, LongMessagesOfPartsAlternate) {
  const Plan plan = plan_allreduce(0, 4, kLong, kApart, GetParam(), with_rails(2)).plan;
  std::vector<std::uint32_t> taken;  // the edges of the first messages
  for (const Step& step : plan.steps) {
    if (step.kind != Step::Kind::combine) continue;
    for (std::uint32_t i = 0; i < step.count; ++i) {
      const Operand& operand = plan.operands[step.first + i];
      if (operand.kind == Operand::Kind::message) taken.push_back(operand.edge);
    }
  }
  ASSERT_GE(taken.size(), 16U);
  for (std::size_t i = 1; i < 16; ++i) EXPECT_NE(taken[i], taken[i - 1]) << "message " << i;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, OnRails, testing::ValuesIn(kAlgorithms),
                         [](const auto& test) { return std::string(name(test.param)); });

// The level on which two ranks are neighbors.
int level_of(Rank rank, Rank peer, int base) {
  int level = 0;
  for (; rank % base == peer % base; ++level) {
    rank /= base;
    peer /= base;
  }
  return level;
}

// elements[level][phase] that a rank sends, the phase being the how-manieth message on its edge.
std::map<int, std::map<int, std::size_t>> traffic_of(const Planned& planned, int base,
                                                     std::size_t elements) {
  std::map<int, std::map<int, std::size_t>> traffic;
  std::map<Rank, int> phases;
  for (const Sent& sent : sent_by(planned, elements)) {
    traffic[level_of(planned.view.rank, sent.to, base)][phases[sent.to]++] += sent.elements;
  }
  return traffic;
}

void expect_every_interface_busy(int base, int levels) {
  int size = 1;
  for (int i = 0; i < levels; ++i) size *= base;
  const auto elements = static_cast<std::size_t>(size * levels) * 10 + 7;  // not a whole number
  for (const Planned& planned :
       allreduce_plans(size, 0, kApart, AllreduceAlgorithm::bcube, with_rails(levels))) {
    const auto traffic = traffic_of(planned, base, elements);
    ASSERT_EQ(traffic.size(), static_cast<std::size_t>(levels));
    for (int phase = 0; phase < 2 * levels; ++phase) {
      const std::size_t first = traffic.at(0).at(phase);
      for (const auto& [level, by_phase] : traffic) {
        ASSERT_EQ(by_phase.size(), static_cast<std::size_t>(2 * levels));
        // Each message is longer or shorter by one element at most.
        ASSERT_NEAR(static_cast<double>(by_phase.at(phase)), static_cast<double>(first), base - 1)
            << "rank " << planned.view.rank << " level " << level << " phase " << phase;
      }
    }
  }
}

TEST(Bcube, EveryInterfaceIsBusyInEveryStep) {
  expect_every_interface_busy(3, 2);  // Canary's example
  expect_every_interface_busy(2, 4);
  expect_every_interface_busy(4, 3);
  expect_every_interface_busy(8, 2);
}

TEST(Bcube, HasADigitForEachRailWhereItCan) {
  const auto edges = [](int size, int rails) {
    return plan_allreduce(0, size, 0, kApart, AllreduceAlgorithm::bcube, with_rails(rails))
        .view.out;
  };
  EXPECT_EQ(edges(64, 2).size(), 14U);  // 8^2
  EXPECT_EQ(edges(64, 3).size(), 9U);   // 4^3
  EXPECT_EQ(edges(64, 4).size(), 6U);   // 64 is no fourth power: 2^6
  EXPECT_EQ(edges(9, 1), (std::vector<Rank>{1, 2, 3, 6}));
}

TEST(Rails, EdgesUsedAtOnceHaveRailsOfTheirOwn) {
  const Planned bcube =
      plan_allreduce(5, 9, 0, kApart, AllreduceAlgorithm::bcube, with_rails(2));  // digits 1, 2
  EXPECT_EQ(bcube.view.out, (std::vector<Rank>{2, 3, 4, 8}));
  EXPECT_EQ(bcube.plan.rails, (std::vector<int>{1, 0, 0, 1}));
  const Planned rings =
      plan_allreduce(0, 8, 0, kApart, AllreduceAlgorithm::multi_ring, with_rails(2));
  EXPECT_EQ(rings.view.out, (std::vector<Rank>{1, 7}));
  EXPECT_EQ(rings.plan.rails, (std::vector<int>{0, 1}));
  // As many levels as ranks allow, and not as rails: no rail is better than another.
  EXPECT_TRUE(
      plan_allreduce(0, 8, 0, kApart, AllreduceAlgorithm::bcube, with_rails(2)).plan.rails.empty());
}

TEST(Rails, RanksOfAMachineShareTheRailsEvenly) {
  Layout layout = layout_of({4, 4});
  layout.rails = 2;
  for (Rank rank = 0; rank < 8; ++rank) {
    const Planned planned = plan_hierarchical_neighbor_allreduce(
        rank, layout, {rank / 4, 2, {1 - rank / 4}, {1 - rank / 4}}, kApart);
    for (std::size_t edge = 0; edge < planned.view.out.size(); ++edge) {
      const bool is_remote = planned.view.out[edge] / 4 != rank / 4;
      EXPECT_EQ(planned.plan.rails[edge], is_remote ? rank % 4 / 2 : kAnyRail) << rank;
    }
  }
  layout.rails = 3;  // 4 ranks on 3 rails would be uneven
  const Planned uneven = plan_hierarchical_neighbor_allreduce(0, layout, {0, 2, {1}, {1}}, kApart);
  EXPECT_TRUE(uneven.plan.rails.empty());
}

TEST(Rails, SharesTakeTheRailThatIsNearTheRank) {
  Layout layout = layout_of({3, 3});
  layout.rails = 2;
  layout.near = {1, 0, kAnyRail, 0, 1, 1};
  for (Rank rank = 0; rank < 6; ++rank) {
    const Planned planned = plan_hierarchical_neighbor_allreduce(
        rank, layout, {rank / 3, 2, {1 - rank / 3}, {1 - rank / 3}}, kApart);
    const int near = layout.near[static_cast<std::size_t>(rank)];
    EXPECT_EQ(planned.plan.rails.empty(), near == kAnyRail);
    for (std::size_t edge = 0; edge < planned.plan.rails.size(); ++edge) {
      const bool is_remote = planned.view.out[edge] / 3 != rank / 3;
      EXPECT_EQ(planned.plan.rails[edge], is_remote ? near : kAnyRail) << rank;
    }
  }
}

// Of the second machine nothing is known: its ranks take the rails in turn.
TEST(Rails, MachinesWithoutDistancesShareTheRailsEvenly) {
  Layout layout = layout_of({2, 2});
  layout.rails = 2;
  layout.near = {1, kAnyRail, kAnyRail, kAnyRail};
  const std::vector<int> expected = {1, kAnyRail, 0, 1};
  for (Rank rank = 0; rank < 4; ++rank) {
    const Planned planned = plan_hierarchical_neighbor_allreduce(
        rank, layout, {rank / 2, 2, {1 - rank / 2}, {1 - rank / 2}}, kApart);
    const int rail = expected[static_cast<std::size_t>(rank)];
    EXPECT_EQ(planned.plan.rails.empty(), rail == kAnyRail) << rank;
    for (std::size_t edge = 0; edge < planned.plan.rails.size(); ++edge) {
      const bool is_remote = planned.view.out[edge] / 2 != rank / 2;
      EXPECT_EQ(planned.plan.rails[edge], is_remote ? rail : kAnyRail) << rank;
    }
  }
}

// An edge to the next rank along each dimension.
TEST(Torus, HasRingsAlongBalancedDimensions) {
  const auto torus = [](int size, int rails) {
    return plan_allreduce(0, size, 0, kApart, AllreduceAlgorithm::torus, with_rails(rails));
  };
  EXPECT_EQ(torus(12, 1).view.out, (std::vector<Rank>{1, 4}));          // 3 x 4
  EXPECT_EQ(torus(12, 3).view.out, (std::vector<Rank>{1, 3, 6}));       // 2 x 2 x 3
  EXPECT_EQ(torus(15, 3).view.out, (std::vector<Rank>{1, 5}));          // no three factors: 3 x 5
  EXPECT_EQ(torus(404, 3).view.out, (std::vector<Rank>{1, 101, 202}));  // 2 x 2 x 101
  const Plan plan = torus(64, 2).plan;
  const auto combines = std::ranges::count(plan.steps, Step::Kind::combine, &Step::kind);
  EXPECT_EQ(combines, 2 * 2 * (7 + 7));  // two parts, there and back, along both dimensions
}

TEST(MultiRing, RingsGoOverDifferentEdges) {
  const auto next = [](int size, int rails) {
    return plan_allreduce(0, size, 0, kApart, AllreduceAlgorithm::multi_ring, with_rails(rails))
        .view.out;
  };
  EXPECT_EQ(next(8, 1), (std::vector<Rank>{1}));
  EXPECT_EQ(next(8, 3), (std::vector<Rank>{1, 3, 7}));
  EXPECT_EQ(next(6, 4), (std::vector<Rank>{1, 5}));  // no other stride passes all of 6 ranks
  EXPECT_EQ(next(2, 4), (std::vector<Rank>{1}));
}

TEST(AllreduceAtScale, TenThousandRanksHaveFewEdges) {
  const Planned bcube =
      plan_allreduce(4321, 10'000, 1 << 20, kApart, AllreduceAlgorithm::bcube, with_rails(4));
  EXPECT_EQ(bcube.view.out.size(), 4U * 9);
  EXPECT_EQ(bcube.plan.partition_of(Buffer::input).blocks, 40'000U);
  EXPECT_EQ(bcube.plan.steps.size(), 4U * 4 * (9 + 1 + 1 + 9));
  const Planned torus =
      plan_allreduce(4321, 10'000, 1 << 20, kApart, AllreduceAlgorithm::torus, with_rails(2));
  EXPECT_EQ(torus.view.out.size(), 2U);
}

TEST(AllreduceAtScale, RailAlgorithmsAreRightAtSeveralHundredRanks) {
  for (const AllreduceAlgorithm algorithm : kAlgorithms) {
    const Status status = verify(allreduce_plans(343, 0, kInPlace, algorithm, with_rails(3)),
                                 {.operation = Collective::allreduce, .shape = kInPlace});
    EXPECT_TRUE(status.ok()) << name(algorithm) << ": " << status.to_string();
  }
}

}  // namespace
}  // namespace weft
