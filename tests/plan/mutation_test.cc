// verify on plans that were right until one thing in them was changed: each change must be caught,
// and the message must lead to it.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/plan/plans.h"

namespace weft {
namespace {

constexpr Expectation kAllreduce{.operation = Collective::allreduce};
constexpr Expectation kAllreduceInPlace{.operation = Collective::allreduce, .shape = kInPlace};
constexpr Expectation kNeighbors{.operation = Collective::neighbor_allreduce};
constexpr Expectation kNeighborsInPlace{.operation = Collective::neighbor_allreduce,
                                        .shape = kInPlace};

Plans ring_of(int size, Shape shape = kApart) {
  return allreduce_plans(size, 4096, shape, AllreduceAlgorithm::ring);
}
Plans split_of(int size, Shape shape = kApart) {
  return allreduce_plans(size, 4096, shape, AllreduceAlgorithm::split);
}
Plans direct_of(int size, Shape shape = kApart) {
  return allreduce_plans(size, 4096, shape, AllreduceAlgorithm::direct);
}
Plans neighbors_on_exponential(int size, Shape shape = kApart) {
  return neighbor_allreduce_plans(exponential_views(size), shape);
}

// Two ranks, each the other's only neighbor, with hand-written steps.
Plans pair_of(const Plan& plan) {
  return {{{0, 2, {1}, {1}}, plan}, {{1, 2, {0}, {0}}, plan}};
}

Plan pair_plan(std::vector<Step> steps, std::vector<Operand> operands) {
  Plan plan;
  plan.operation = "test";
  plan.algorithm = "by hand";
  plan.in_degree = plan.out_degree = 1;
  plan.partition[0] = plan.partition[1] = {Partition::Kind::even, 1};
  plan.steps = std::move(steps);
  plan.edges = {0};
  plan.operands = std::move(operands);
  return plan;
}

Step send_of(Slice slice) {
  Step step;
  step.slice = slice;
  step.count = 1;
  return step;
}

Step combine_of(Slice slice, std::uint32_t first, std::uint32_t count) {
  Step step;
  step.kind = Step::Kind::combine;
  step.combining = Combining::reduce;
  step.slice = slice;
  step.first = first;
  step.count = count;
  return step;
}

constexpr Slice kInput{Buffer::input, 0, 1};
constexpr Slice kOutput{Buffer::output, 0, 1};
constexpr Slice kScratch{Buffer::scratch, 0, 1};

Operand local_of(Slice slice) {
  return {Operand::Kind::local, slice, 0, {Weight::Kind::scale, 0}};
}
Operand message_of_edge_0() {
  return {Operand::Kind::message, {}, 0, {Weight::Kind::scale, 0}};
}

// The index of the first step for which `is_wanted` holds.
template <typename IsWanted>
std::size_t find_step(const Plan& plan, IsWanted is_wanted) {
  std::size_t i = 0;
  while (!is_wanted(plan.steps[i])) ++i;
  return i;
}

std::size_t first_with_hazard(const Plan& plan) {
  return find_step(plan, [](const Step& step) { return step.hazard_count > 0; });
}

// Each combine that waits for readers must: without that it is caught.
void expect_hazards_needed(const Plans& right, const Expectation& expectation) {
  for (std::size_t rank = 0; rank < right.size(); ++rank) {
    for (std::size_t i = 0; i < right[rank].plan.steps.size(); ++i) {
      if (right[rank].plan.steps[i].hazard_count == 0) continue;
      Plans plans = right;
      plans[rank].plan.steps[i].hazard_count = 0;
      const std::string where =
          "rank " + std::to_string(rank) + " step " + std::to_string(i) + ": it writes what step";
      expect_caught(plans, expectation, Code::invalid_argument, where);
    }
  }
}

TEST(Memory, EveryHazardOfEveryAlgorithmIsNeeded) {
  const std::pair<AllreduceAlgorithm, Layout> cases[] = {
      {AllreduceAlgorithm::split, layout_of({6})},
      {AllreduceAlgorithm::ring, layout_of({6})},
      {AllreduceAlgorithm::halving_doubling, layout_of({6})},
      {AllreduceAlgorithm::bcube, layout_of({9})},
      {AllreduceAlgorithm::torus, layout_of({6})},
      {AllreduceAlgorithm::multi_ring, {{}, 2}},
      {AllreduceAlgorithm::hierarchical, layout_of({2, 3})},
      {AllreduceAlgorithm::hierarchical, layout_of({2, 1, 3})}};
  for (const auto& [algorithm, layout] : cases) {
    const int size = layout.machine.empty() ? 5 : static_cast<int>(layout.machine.size());
    for (const Shape shape : {kApart, kInPlace}) {
      expect_hazards_needed(allreduce_plans(size, 4096, shape, algorithm, layout),
                            {.operation = Collective::allreduce, .shape = shape});
    }
  }
}

TEST(Memory, InPlaceWithoutScratchIsARace) {
  expect_caught(neighbors_on_exponential(8), kNeighborsInPlace, Code::invalid_argument,
                "rank 0 step 1: it writes what step 0 sent");
  expect_caught(direct_of(4), kAllreduceInPlace, Code::invalid_argument,
                "rank 0 step 1: it writes what step 0 sent");
  expect_caught(split_of(4), kAllreduceInPlace, Code::invalid_argument, "rank 0 step 5");
}

TEST(Memory, InPlaceWithAHazardInsteadOfScratchIsADeadlock) {
  Plans plans = neighbors_on_exponential(4);
  for (Planned& program : plans) {
    program.plan.hazards = {0};
    program.plan.steps[1].hazard_count = 1;
  }
  expect_caught(plans, kNeighborsInPlace, Code::invalid_argument,
                "deadlock: rank 0 step 1 waits until rank 1 has read step 0; rank 1 step 1 waits");
}

TEST(Memory, ReadingScratchBeforeItIsWrittenIsCaught) {
  Plans plans = neighbors_on_exponential(8, kInPlace);
  plans[3].plan.steps.erase(plans[3].plan.steps.begin());
  expect_caught(plans, kNeighborsInPlace, Code::invalid_argument,
                "rank 3 step 0: it sends what was never written");

  Plan plan = pair_plan({send_of(kInput), combine_of(kOutput, 0, 2)},
                        {local_of(kScratch), message_of_edge_0()});
  plan.partition[2] = {Partition::Kind::even, 1};
  expect_caught(pair_of(plan), kAllreduce, Code::invalid_argument,
                "rank 0 step 1: operand 0 was never written");
}

TEST(Memory, TheInputIsReadOnlyUnlessInPlace) {
  const Plan plan = pair_plan({combine_of(kInput, 0, 1)}, {local_of(kInput)});
  expect_caught(pair_of(plan), kAllreduce, Code::invalid_argument,
                "rank 0 step 0: it writes the input");
}

TEST(Memory, AnOperandMayNotOverlapTheDestinationInPart) {
  Plan plan =
      pair_plan({combine_of({Buffer::output, 0, 1}, 0, 1)}, {local_of({Buffer::input, 1, 2})});
  plan.partition[0] = {Partition::Kind::even, 3};
  plan.partition[1] = {Partition::Kind::even, 2};
  expect_caught(pair_of(plan), kAllreduceInPlace, Code::invalid_argument,
                "rank 0 step 0: operand 0 overlaps the destination in part");
}

TEST(Messages, SwappedSendOrderIsCaught) {
  const Expectation expectation{.operation = Collective::broadcast, .root = 2};
  const Plans right = broadcast_plans(16, 2, 1 << 20, kApart);
  Plans same_size = right;
  std::swap(same_size[2].plan.steps[0], same_size[2].plan.steps[2]);
  expect_caught(same_size, expectation, Code::invalid_argument, "output block 0: it is not what");
  Plans other_size = right;
  std::swap(other_size[2].plan.steps[0], other_size[2].plan.steps[1]);
  expect_caught(other_size, expectation, Code::mismatch,
                "elements from rank 2, whose step 0 sends");
}

TEST(Messages, ADroppedMessageIsADeadlockThatNamesBothRanks) {
  Plans plans = neighbors_on_exponential(8);
  --plans[2].plan.steps[0].count;  // no longer to rank 6
  expect_caught(plans, kNeighbors, Code::invalid_argument,
                "deadlock: rank 6 step 1 waits for a message from rank 2; rank 2 has ended");
}

TEST(Messages, AMessageThatNobodyTakesIsCaught) {
  Plans plans = split_of(4);
  plans[1].plan.steps.pop_back();
  expect_caught(plans, kAllreduce, Code::mismatch,
                "rank 0 step 4: its message to rank 1 is never taken");
}

TEST(Messages, DifferentSizesAreCaught) {
  Plans plans = direct_of(4);
  plans[2].plan.steps[0].slice = {Buffer::input, 0, 0};
  expect_caught(plans, kAllreduce, Code::mismatch,
                "takes 2 elements from rank 2, whose step 0 sends 0");
}

TEST(Messages, AOneSidedEdgeIsCaughtAtEitherEnd) {
  std::vector<View> views = exponential_views(8);
  std::erase(views[5].in, 4);
  expect_caught(neighbor_allreduce_plans(views, kApart), kNeighbors, Code::mismatch,
                "edge 4 -> 5: rank 4 has it, rank 5 does not");
  views = exponential_views(8);
  std::erase(views[4].out, 5);
  expect_caught(neighbor_allreduce_plans(views, kApart), kNeighbors, Code::mismatch,
                "edge 4 -> 5: rank 5 has it, rank 4 does not");
}

TEST(Progress, WaitingBeforeSendingIsADeadlock) {
  const Plan plan = pair_plan({combine_of(kOutput, 0, 2), send_of(kInput)},
                              {local_of(kInput), message_of_edge_0()});
  expect_caught(
      pair_of(plan), kAllreduce, Code::invalid_argument,
      "deadlock: rank 0 step 0 waits for a message from rank 1; rank 1 step 0 waits for a "
      "message from rank 0; and so around to rank 0");
}

TEST(Progress, OneCombineCannotTakeTwoMessagesOfOneEdge) {
  const Plan plan = pair_plan({send_of(kInput), send_of(kInput), combine_of(kOutput, 0, 2)},
                              {message_of_edge_0(), message_of_edge_0()});
  expect_caught(pair_of(plan), kAllreduce, Code::invalid_argument,
                "rank 0 step 2: it takes two messages of in-edge 0 at once");
}

TEST(Result, AWrongWeightIsCaught) {
  Plans plans = neighbors_on_exponential(8);
  plans[3].plan.operands[0].weight.index = 1;
  expect_caught(plans, kNeighbors, Code::invalid_argument, "rank 3 output block 0");

  Plans ring = ring_of(5);
  Plan& plan = ring[2].plan;
  const std::size_t first_combine =
      find_step(plan, [](const Step& step) { return step.kind == Step::Kind::combine; });
  plan.operands[plan.steps[first_combine].first].weight = {};  // the raw message, unscaled
  expect_caught(ring, kAllreduce, Code::invalid_argument, "output block 0");
}

TEST(Result, AMissingAndADoubledShareNameTheirRank) {
  Plans plans = direct_of(4);
  std::swap(plans[1].plan.operands[1], plans[1].plan.operands[3]);  // its own term is now the last
  --plans[1].plan.steps[1].count;
  expect_caught(plans, kAllreduce, Code::invalid_argument,
                "rank 1 output block 0: it lacks the share of rank 1");

  plans = direct_of(4);
  plans[1].plan.operands.push_back(plans[1].plan.operands[1]);
  ++plans[1].plan.steps[1].count;
  expect_caught(plans, kAllreduce, Code::invalid_argument,
                "rank 1 output block 0: it has the share of rank 1 twice");
}

TEST(Result, AWeightedSumIsNoReduction) {
  Plans plans = direct_of(4);
  for (Planned& program : plans) {
    for (Step& step : program.plan.steps) step.combining = Combining::weighted;
  }
  expect_caught(plans, kAllreduce, Code::invalid_argument, "it must be reduced");
}

// The sender chooses how its memory is read by what it believes to become of the message.
TEST(Result, ASenderThatIsWrongAboutItsReceiversIsCaught) {
  Plans plans = direct_of(4);
  plans[1].plan.steps[0].combining = Combining::copy;
  expect_caught(plans, kAllreduce, Code::mismatch,
                "it takes a message of rank 1 otherwise than that rank's step 0 says");
}

TEST(Result, AnotherOrderOfTheSumIsCaught) {
  Plans plans = direct_of(4);
  std::swap(plans[2].plan.operands[0], plans[2].plan.operands[1]);
  expect_caught(plans, kAllreduce, Code::invalid_argument,
                "rank 2 output block 0: it is combined in another order");
}

TEST(Result, ABarrierThatIsTooShortIsCaught) {
  Plans plans = barrier_plans(16);
  for (Planned& program : plans) program.plan.steps.resize(program.plan.steps.size() - 2);
  expect_caught(plans, {.operation = Collective::barrier}, Code::invalid_argument,
                "rank 0 can leave the barrier before rank 1 came");
}

// A message longer than the ring that its sender stages it in needs all its readers.
TEST(Progress, ReadersThatBeginAtDifferentSendersAreCaught) {
  Plans plans = plans_of(4, [](Rank rank) { return plan_allgather(rank, 4, 4096, kApart); });
  for (std::ptrdiff_t rank = 0; rank < 4; ++rank) {
    std::vector<Step>& steps = plans[static_cast<std::size_t>(rank)].plan.steps;
    std::rotate(steps.end() - 3, steps.end() - 3 + rank % 3, steps.end());
  }
  expect_caught(plans, {.operation = Collective::allgather}, Code::invalid_argument,
                "rank 0 step 2 waits until rank 2 takes rank 1's message too; ");
}

TEST(Form, IndicesOutOfTheirListsAreCaught) {
  Plans plans = ring_of(4);
  plans[1].plan.steps[0].slice.last = 9;
  expect_caught(plans, kAllreduce, Code::invalid_argument, "rank 1 step 0: its slice lies outside");
  plans = ring_of(4);
  plans[1].plan.edges[0] = 1;
  expect_caught(plans, kAllreduce, Code::invalid_argument, "rank 1 step 0: there is no out-edge 1");
  plans = ring_of(4, kInPlace);
  const std::size_t step = first_with_hazard(plans[1].plan);
  plans[1].plan.hazards[0] = static_cast<std::uint32_t>(step);
  expect_caught(plans, kAllreduceInPlace, Code::invalid_argument, "is no earlier send");
  plans = ring_of(4);
  std::swap(plans[0], plans[1]);
  expect_caught(plans, kAllreduce, Code::invalid_argument, "program 0 of 4 is that of rank 1 of 4");
  expect_caught(broadcast_plans(4, 0, 64, kApart), {.operation = Collective::broadcast, .root = 4},
                Code::invalid_argument, "there is no rank 4 to be the root");
}

}  // namespace
}  // namespace weft
