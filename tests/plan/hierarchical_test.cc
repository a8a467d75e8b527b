// Operations by machines: right however ranks are spread over machines, with no byte too many
// between these.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/plan/plans.h"

namespace weft {
namespace {

constexpr auto kHierarchical = AllreduceAlgorithm::hierarchical;

// Even and uneven, machines of one rank among them, in order and dealt out.
std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const std::vector<int>& counts : {std::vector{2, 2},
                                         {3, 3, 3},
                                         {4, 4, 4, 4},
                                         {2, 1},
                                         {1, 3},
                                         {5, 3},
                                         {4, 2, 1},
                                         {1, 1, 2},
                                         {2, 3, 4, 6},
                                         {7, 1, 1, 1, 5},
                                         {2, 2, 2, 2, 2, 2, 3},
                                         {8, 8, 8, 8, 8, 8, 8, 8}}) {
    all.push_back(layout_of(counts));
    all.push_back(scattered_layout(counts, counts.size()));
  }
  return all;
}

int size_of(const Layout& layout) {
  return static_cast<int>(layout.machine.size());
}

TEST(HierarchicalAllreduce, IsRightOnMachinesOfAllKinds) {
  for (const Layout& layout : layouts()) {
    for (const Shape shape : {kApart, kInPlace}) {
      ASSERT_TRUE(check_allreduce(kHierarchical, size_of(layout), layout).ok());
      expect_verified(allreduce_plans(size_of(layout), 0, shape, kHierarchical, layout),
                      {.operation = Collective::allreduce, .shape = shape});
    }
  }
}

TEST(HierarchicalAllreduce, IsRightOnManyMachines) {
  for (const int machines : {12, 17, 25, 31, 32, 60, 66, 67}) {  // a ring of 67, levels else
    std::vector<int> counts(static_cast<std::size_t>(machines), 2);
    counts[3] = 1;
    for (const Layout& layout : {layout_of(counts), scattered_layout(counts, 5)}) {
      const Status status =
          verify(allreduce_plans(size_of(layout), 0, kInPlace, kHierarchical, layout),
                 {.operation = Collective::allreduce, .shape = kInPlace});
      EXPECT_TRUE(status.ok()) << machines << ": " << status.to_string();
    }
  }
}

// elements[{from, to}] that machines send to others.
std::map<std::pair<int, int>, std::size_t> between_machines(const Plans& plans,
                                                            const Layout& layout,
                                                            std::size_t elements) {
  std::map<std::pair<int, int>, std::size_t> traffic;
  for (const Planned& planned : plans) {
    const int from = layout.machine_of(planned.view.rank);
    for (const Sent& sent : sent_by(planned, elements)) {
      const int to = layout.machine_of(sent.to);
      if (to != from) traffic[{from, to}] += sent.elements;
    }
  }
  return traffic;
}

TEST(HierarchicalAllreduce, AMachineSendsNoMoreThanOneRankWould) {
  for (const Layout& layout : layouts()) {
    const int machines = layout.machines();
    const std::size_t elements = 840 * static_cast<std::size_t>(machines);
    const Plans plans = allreduce_plans(size_of(layout), 0, kApart, kHierarchical, layout);
    std::map<int, std::size_t> sent;
    for (const auto& [pair, count] : between_machines(plans, layout, elements)) {
      sent[pair.first] += count;
    }
    ASSERT_EQ(sent.size(), static_cast<std::size_t>(machines));
    for (const auto& [machine, count] : sent) EXPECT_EQ(count, 2 * (elements - 840)) << machine;
  }
}

TEST(HierarchicalAllreduce, ALevelHasFewMachines) {
  const Layout layout = layout_of(std::vector<int>(1250, 8));
  const Planned planned = plan_allreduce(77, 10'000, 0, kApart, kHierarchical, layout);
  EXPECT_EQ(planned.view.out.size(), 7U + (10 - 1) + 3 * (5 - 1));  // 1250 = 10 x 5 x 5 x 5
}

class HierarchicalNeighbors : public testing::TestWithParam<Shape> {
 protected:
  [[nodiscard]] static Plans plans(const Layout& layout, const std::vector<View>& machines) {
    return plans_of(size_of(layout), [&](Rank rank) {
      const auto machine = static_cast<std::size_t>(layout.machine_of(rank));
      return plan_hierarchical_neighbor_allreduce(rank, layout, machines[machine], GetParam());
    });
  }
  static void expect_right(const Layout& layout, const std::vector<View>& machines) {
    ASSERT_TRUE(check_hierarchical_neighbor_allreduce(layout).ok());
    expect_verified(plans(layout, machines),
                    {.operation = Collective::hierarchical_neighbor_allreduce,
                     .shape = GetParam(),
                     .machine = layout.machine,
                     .machines = machines});
  }
};

TEST_P(HierarchicalNeighbors, AreRightOnGraphsOfAllKinds) {
  for (const Layout& layout : layouts()) {
    expect_right(layout, exponential_views(layout.machines()));
    for (const std::uint32_t percent : {0U, 25U, 60U, 100U}) {
      expect_right(layout, random_views(layout.machines(), percent, percent));
    }
  }
}

TEST_P(HierarchicalNeighbors, OneRankPerMachineOneMachineAndOneRank) {
  expect_right(layout_of({1, 1, 1, 1, 1}), random_views(5, 40, 3));
  expect_right(layout_of({4}), random_views(1, 0, 1));
  expect_right(layout_of({1}), random_views(1, 0, 1));
}

TEST_P(HierarchicalNeighbors, ManyUnevenMachines) {
  std::vector<int> counts;
  for (int machine = 0; machine < 40; ++machine) counts.push_back(1 + machine % 4);
  expect_right(scattered_layout(counts, 11), exponential_views(40));
}

// Whatever the numbers of ranks, the tensor goes once along each edge of the graph of machines.
TEST_P(HierarchicalNeighbors, SendTheTensorOnceAlongEachEdge) {
  for (const Layout& layout : layouts()) {
    const std::vector<View> machines = random_views(layout.machines(), 50, 9);
    const auto traffic = between_machines(plans(layout, machines), layout, 1009);
    std::size_t edges = 0;
    for (const View& machine : machines) {
      edges += machine.out.size();
      for (const Rank to : machine.out) EXPECT_EQ(traffic.at({machine.rank, to}), 1009U);
    }
    EXPECT_EQ(traffic.size(), edges);
  }
}

// Each rank sends its own share, and where machines are alike to one rank of the other machine.
TEST_P(HierarchicalNeighbors, EveryRankCarriesItsShare) {
  const Layout layout = layout_of({4, 4, 4});
  for (const Planned& planned : plans(layout, exponential_views(3))) {
    std::size_t outside = 0;
    for (const Sent& sent : sent_by(planned, 400)) {
      if (layout.machine_of(sent.to) == layout.machine_of(planned.view.rank)) continue;
      EXPECT_EQ(sent.to % 4, planned.view.rank % 4);
      outside += sent.elements;
    }
    EXPECT_EQ(outside, 2U * 100);
  }
}

// Not of ranks: those of machine 1 lie around the others.
TEST_P(HierarchicalNeighbors, SumInTheOrderOfMachines) {
  const Layout layout{{0, 1, 2, 2, 1, 0}, 1};
  const View machine{1, 3, {0, 2}, {0, 2}};
  const Planned planned = plan_hierarchical_neighbor_allreduce(4, layout, machine, GetParam());
  const Step& step = *std::ranges::find_if(planned.plan.steps, [](const Step& any) {
    return any.kind == Step::Kind::combine && any.count == 3;
  });
  const Operand* const operands = planned.plan.operands.data() + step.first;
  EXPECT_EQ(planned.view.in[operands[0].edge], 5);
  EXPECT_EQ(operands[1].weight, (Weight{Weight::Kind::self, 0}));
  EXPECT_EQ(planned.view.in[operands[2].edge], 3);
  EXPECT_EQ(operands[2].weight, (Weight{Weight::Kind::edge, operands[2].edge}));
}

// As NCCL gives the means.
TEST(HierarchicalNeighborsOfMeans, AreRightOnGraphsOfAllKinds) {
  for (const Layout& layout : layouts()) {
    for (const std::uint32_t percent : {0U, 25U, 100U}) {
      const std::vector<View> machines = random_views(layout.machines(), percent, percent);
      const Plans plans = plans_of(size_of(layout), [&](Rank rank) {
        const auto machine = static_cast<std::size_t>(layout.machine_of(rank));
        return plan_hierarchical_neighbor_allreduce(rank, layout, machines[machine], kApart,
                                                    MeanInput::of_machine);
      });
      expect_verified(plans, {.operation = Collective::hierarchical_neighbor_allreduce,
                              .shape = kApart,
                              .machine = layout.machine,
                              .machines = machines,
                              .input = MeanInput::of_machine});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, HierarchicalNeighbors, testing::Values(kApart, kInPlace),
                         [](const auto& test) {
                           return test.param.in_place ? "in_place" : "apart";
                         });

TEST(HierarchicalNeighborsAlone, OneRankMachinesNeedNoScratchUnlessInPlace) {
  const Layout layout = layout_of({1, 1});
  const std::vector<View> machines = exponential_views(2);
  const auto scratch = [&](Shape shape) {
    return plan_hierarchical_neighbor_allreduce(0, layout, machines[0], shape)
        .plan.partition_of(Buffer::scratch)
        .kind;
  };
  EXPECT_EQ(scratch(kApart), Partition::Kind::none);
  EXPECT_EQ(scratch(kInPlace), Partition::Kind::even);
}

TEST(HierarchicalNeighborsCheck, RefusesWhatItCannotServe) {
  EXPECT_EQ(check_hierarchical_neighbor_allreduce({}).text(),
            "hierarchical_neighbor_allreduce needs to know which machine each rank is on");
  EXPECT_FALSE(check_hierarchical_neighbor_allreduce(layout_of({16, 15, 13, 11, 7})).ok());
  EXPECT_FALSE(check_hierarchical_neighbor_allreduce({{1, 0}, 1}).ok());
}

}  // namespace
}  // namespace weft
