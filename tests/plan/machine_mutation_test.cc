// verify on plans of operations by machines, and of allreduces in parts, that were right until one
// thing in them was changed. What all plans have in common is in mutation_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/plan/plans.h"

namespace weft {
namespace {

// Machines of two and three ranks that are each other's neighbors: rank 0 has blocks 0 … 2 and
// shares the third with rank 3.
class Mutated : public testing::Test {
 protected:
  [[nodiscard]] Plans plans(Shape shape) const {
    return plans_of(5, [&](Rank rank) {
      const auto machine = static_cast<std::size_t>(layout_.machine_of(rank));
      return plan_hierarchical_neighbor_allreduce(rank, layout_, machines_[machine], shape);
    });
  }
  [[nodiscard]] Expectation expectation(Shape shape) const {
    return {.operation = Collective::hierarchical_neighbor_allreduce,
            .shape = shape,
            .machine = layout_.machine,
            .machines = machines_};
  }
  // The first combine of output, which is that of a rank's first segment.
  static Step& first_sum(Plan& plan) {
    return *std::ranges::find_if(plan.steps, [](const Step& step) {
      return step.kind == Step::Kind::combine && step.slice.buffer == Buffer::output;
    });
  }

  Layout layout_ = layout_of({2, 3});
  std::vector<View> machines_ = exponential_views(2);
};

TEST_F(Mutated, IsRightBefore) {
  expect_verified(plans(kApart), expectation(kApart));
  expect_verified(plans(kInPlace), expectation(kInPlace));
}

TEST_F(Mutated, AMeanThatIsNotScaledIsCaught) {
  Plans wrong = plans(kApart);
  wrong[0].plan.operands[0].weight = {};
  expect_caught(wrong, expectation(kApart), Code::invalid_argument, "rank 0 output block 0");
}

TEST_F(Mutated, AWeightThatIsNotTheMachinesIsCaught) {
  for (const Weight weight : {Weight{}, Weight{Weight::Kind::scale, 0},
                              Weight{Weight::Kind::edge, 0}}) {  // in-edge 0 is inside the machine
    Plans wrong = plans(kApart);
    Plan& plan = wrong[0].plan;
    const Step& sum = first_sum(plan);
    for (std::uint32_t i = 0; i < sum.count; ++i) plan.operands[sum.first + i].weight = weight;
    expect_caught(wrong, expectation(kApart), Code::invalid_argument, "rank 0 output block 0");
  }
}

TEST_F(Mutated, ASegmentOfAnotherLengthIsCaught) {
  Plans wrong = plans(kApart);
  const auto send = std::ranges::find_if(wrong[0].plan.steps, [](const Step& step) {
    return step.kind == Step::Kind::send && step.slice.buffer == Buffer::scratch;
  });
  --send->slice.last;
  expect_caught(wrong, expectation(kApart), Code::mismatch, "elements from rank 0, whose step");
}

TEST_F(Mutated, SendingTheShareFromWhereTheSumGoesIsARace) {
  Plans wrong = plans(kInPlace);
  for (Step& step : wrong[0].plan.steps) {
    if (step.slice.buffer == Buffer::scratch) step.slice.buffer = Buffer::output;
  }
  for (Operand& operand : wrong[0].plan.operands) {
    if (operand.slice.buffer == Buffer::scratch) operand.slice.buffer = Buffer::output;
  }
  expect_caught(wrong, expectation(kInPlace), Code::invalid_argument, "it writes what step");
}

TEST_F(Mutated, AMessageToTheWrongMachineIsCaught) {
  Plans wrong = plans(kApart);
  Plan& plan = wrong[0].plan;
  const auto send = std::ranges::find_if(plan.steps, [](const Step& step) {
    return step.kind == Step::Kind::send && step.slice.buffer == Buffer::scratch;
  });
  plan.edges[send->first] = 0;  // to rank 1, on our machine
  const Status status = verify(wrong, expectation(kApart));
  EXPECT_FALSE(status.ok());
}

TEST_F(Mutated, OtherMachinesThanThoseOfTheGraphAreCaught) {
  std::vector<View> none = views_of(2, [](Rank, Rank) { return false; });
  Expectation apart = expectation(kApart);
  apart.machines = none;
  expect_caught(plans(kApart), apart, Code::invalid_argument, "rank 0 output block 0");
  Expectation unknown = expectation(kApart);
  unknown.machine = {};
  expect_caught(plans(kApart), unknown, Code::invalid_argument, "0 machines are named for 5 ranks");
}

// Parts take the levels in different orders; one that goes the way of another mixes up the pieces.
TEST(MutatedParts, APartOnTheLevelOfAnotherIsCaught) {
  Plans wrong = allreduce_plans(9, 0, kApart, AllreduceAlgorithm::bcube);
  std::vector<Step>& steps = wrong[4].plan.steps;
  std::swap(steps[0].slice, steps[2].slice);
  const Status status = verify(wrong, {.operation = Collective::allreduce});
  EXPECT_FALSE(status.ok());
  std::swap(steps[0].slice, steps[2].slice);
  EXPECT_TRUE(verify(wrong, {.operation = Collective::allreduce}).ok());
}

TEST(MutatedParts, ASumScaledTwiceIsCaught) {
  for (const auto algorithm : {AllreduceAlgorithm::bcube, AllreduceAlgorithm::torus}) {
    Plans wrong = allreduce_plans(9, 0, kApart, algorithm);
    Plan& plan = wrong[4].plan;
    const auto sum = std::ranges::find_if(plan.operands, [](const Operand& operand) {
      return operand.kind == Operand::Kind::local && operand.slice.buffer == Buffer::output;
    });
    sum->weight = {Weight::Kind::scale, 0};
    expect_caught(wrong, {.operation = Collective::allreduce}, Code::invalid_argument,
                  "output block");
  }
}

}  // namespace
}  // namespace weft
