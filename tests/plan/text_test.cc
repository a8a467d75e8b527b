// to_text: what a person sees of a plan.
#include "scheduler/verify/text.h"

#include <gtest/gtest.h>

#include "tests/plan/plans.h"

namespace weft {
namespace {

TEST(Text, NeighborAllreduceInPlace) {
  const View view{1, 4, {0, 3}, {2}};
  EXPECT_EQ(to_text(plan_neighbor_allreduce(view, kInPlace), view),
            "neighbor_allreduce direct, rank 1 of 4, in 0 3, out 2: one phase reads each of 2 "
            "in-neighbors once, 1 out-neighbors read us; in place, so from a copy\n"
            "input even 1, output even 1, scratch even 1\n"
            "  0 copy scratch[0] := input[0]\n"
            "  1 send scratch[0] -> 2\n"
            "  2 weighted output[0] := w_0*from 0 + w_self*input[0] + w_1*from 3\n");
}

TEST(Text, HazardsAndBlocks) {
  const Planned planned =
      plan_allreduce(0, 3, 4096, kInPlace, AllreduceAlgorithm::halving_doubling);
  EXPECT_EQ(
      to_text(planned.plan, planned.view),
      "allreduce halving_doubling, rank 0 of 3, in 1 2, out 1 2: 4096 bytes on 3 ranks: asked "
      "for by name\n"
      "input even 2, output even 2, scratch none\n"
      "  0 reduce output[0..1] := scale*input[0..1] + scale*from 2\n"
      "  1 send output[1] -> 1\n"
      "  2 reduce output[0] := output[0] + scale*from 1, whole\n"
      "  3 send output[0] -> 1\n"
      "  4 copy output[1] := from 1 after the readers of 1\n"
      "  5 send output[0..1] -> 2\n");
}

TEST(Text, EmptyMessages) {
  const Planned planned = plan_barrier(0, 2);
  EXPECT_EQ(to_text(planned.plan, planned.view),
            "barrier one_round, rank 0 of 2, in 1, out 1: 2 ranks: up to 8 all tell each other\n"
            "input none, output none, scratch none\n"
            "  0 send nothing -> 1\n"
            "  1 reduce nothing := from 1\n");
}

}  // namespace
}  // namespace weft
