// Algorithms by name, which of them a layout allows, and what is said of those that it does not.
#include <gtest/gtest.h>

#include "scheduler/verify/text.h"
#include "tests/plan/plans.h"

namespace weft {
namespace {

TEST(AllreduceNames, AreReadAsTheyArePrinted) {
  for (const auto algorithm :
       {AllreduceAlgorithm::automatic, AllreduceAlgorithm::direct, AllreduceAlgorithm::split,
        AllreduceAlgorithm::ring, AllreduceAlgorithm::halving_doubling, AllreduceAlgorithm::bcube,
        AllreduceAlgorithm::torus, AllreduceAlgorithm::multi_ring, AllreduceAlgorithm::hierarchical,
        AllreduceAlgorithm::nccl}) {
    EXPECT_EQ(allreduce_algorithm(name(algorithm)).value(), algorithm) << name(algorithm);
  }
  EXPECT_EQ(allreduce_algorithm("mesh").value(), AllreduceAlgorithm::split);
  EXPECT_EQ(allreduce_algorithm("auto").value(), AllreduceAlgorithm::automatic);
}

TEST(AllreduceNames, AnUnknownOneIsAnsweredWithThoseThatThereAre) {
  const Status status = allreduce_algorithm("cube").status();
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_EQ(status.text(),
            "there is no allreduce algorithm \"cube\": it is one of auto, mesh, direct, split, "
            "ring, halving_doubling, bcube, torus, multi_ring, hierarchical, nccl");
}

void expect_refused(AllreduceAlgorithm algorithm, int size, const Layout& layout,
                    std::string_view text) {
  const Status status = check_allreduce(algorithm, size, layout);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_EQ(status.text(), text);
}

TEST(AllreduceCheck, SaysWhatAnAlgorithmNeeds) {
  expect_refused(AllreduceAlgorithm::bcube, 6, {},
                 "bcube needs a^b ranks with b of at least 2: 6 is no square, cube or higher "
                 "power");
  expect_refused(AllreduceAlgorithm::torus, 13, {},
                 "torus needs ranks in two dimensions or more: 13 is a prime");
  expect_refused(AllreduceAlgorithm::hierarchical, 4, {},
                 "hierarchical needs several machines: all 4 ranks are on one");
  expect_refused(AllreduceAlgorithm::hierarchical, 4, layout_of({1, 1, 1, 1}),
                 "hierarchical needs machines of several ranks: each of 4 has one");
  expect_refused(AllreduceAlgorithm::hierarchical, 62, layout_of({16, 15, 13, 11, 7}),
                 "machines of 7, 11, 13, 15, 16 ranks have no shares in common: no number up to "
                 "65536 is a multiple of all");
}

TEST(AllreduceCheck, SaysWhatIsWrongWithALayout) {
  expect_refused(AllreduceAlgorithm::ring, 5, layout_of({2, 2}),
                 "the layout has the machines of 4 ranks, not of 5");
  expect_refused(AllreduceAlgorithm::hierarchical, 3, {{0, 2, 1}, 1},
                 "rank 1 cannot be on machine 2: machines are numbered by their lowest rank, and "
                 "the next one is 1");
  expect_refused(AllreduceAlgorithm::bcube, 4, {{}, 0}, "a layout cannot have 0 rails");
}

TEST(AllreduceCheck, OneRankMayUseAny) {
  for (const auto algorithm : {AllreduceAlgorithm::bcube, AllreduceAlgorithm::torus,
                               AllreduceAlgorithm::multi_ring, AllreduceAlgorithm::hierarchical}) {
    EXPECT_TRUE(check_allreduce(algorithm, 1, {}).ok());
    expect_verified(allreduce_plans(1, 64, kApart, algorithm),
                    {.operation = Collective::allreduce});
  }
}

struct Chosen {
  std::vector<int> machines;
  int rails;
  std::size_t bytes;
  std::string_view algorithm;
};

TEST(AllreduceChoice, FollowsMachinesAndRails) {
  const std::vector<int> apart(16, 1);
  const Chosen cases[] = {{{8, 8}, 1, 4 << 10, "direct"},
                          {{8, 8}, 1, (4 << 10) + 1, "hierarchical"},
                          {{8, 3, 1}, 4, 64 << 20, "hierarchical"},
                          {apart, 2, 1 << 20, "bcube"},
                          {apart, 1, (1 << 20) - 16, "halving_doubling"},
                          {apart, 1, 1 << 20, "ring"},
                          {{1, 1, 1}, 2, 1 << 20, "ring"},
                          {{16, 15, 13, 11, 7}, 1, 4 << 20, "ring"}};
  for (const Chosen& chosen : cases) {
    Layout layout = layout_of(chosen.machines);
    layout.rails = chosen.rails;
    const auto size = static_cast<int>(layout.machine.size());
    const auto automatic = AllreduceAlgorithm::automatic;
    const Plan plan = plan_allreduce(0, size, chosen.bytes, kApart, automatic, layout).plan;
    EXPECT_EQ(plan.algorithm, chosen.algorithm) << plan.reason;
    expect_verified(allreduce_plans(size, chosen.bytes, kApart, automatic, layout),
                    {.operation = Collective::allreduce});
  }
}

TEST(AllreduceChoice, ReasonNamesMachinesAndWhatIsMadeOfThem) {
  const auto automatic = AllreduceAlgorithm::automatic;
  EXPECT_EQ(plan_allreduce(0, 12, 1 << 20, kApart, automatic, layout_of({4, 4, 4})).plan.reason,
            "1048576 bytes on 12 ranks of 3 machines: each byte crosses the network once per "
            "machine; 3 machines of 4 ranks, shares meet over levels of 3");
  Layout layout = layout_of({1, 1, 1, 1});
  layout.rails = 2;
  EXPECT_EQ(plan_allreduce(0, 4, 1 << 20, kApart, automatic, layout).plan.reason,
            "1048576 bytes on 4 ranks of 4 machines: 2 rails are busy at once; 2 levels of 2 ranks "
            "each, all busy");
}

TEST(AllreduceChoice, OneMachineChoosesAsIfNoneWereNamed) {
  for (const int size : {2, 8, 65, 100}) {
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{1} << 20, std::size_t{1} << 28}) {
      const Planned without = plan_allreduce(0, size, bytes, kApart);
      const Planned with =
          plan_allreduce(0, size, bytes, kApart, AllreduceAlgorithm::automatic, layout_of({size}));
      EXPECT_EQ(to_text(with.plan, with.view), to_text(without.plan, without.view));
    }
  }
}

}  // namespace
}  // namespace weft
