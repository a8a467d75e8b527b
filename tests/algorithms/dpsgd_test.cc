// D-PSGD with one peer a step: the pairs of the schedule average.
#include "engine/algorithms/algorithms.h"
#include "tests/window/window_job.h"

namespace weft {
namespace {

class DPsgdTest : public OverBoth {};
INSTANTIATE_TEST_SUITE_P(Ways, DPsgdTest, kBothWays, name_of);

TEST_P(DPsgdTest, PairsAverageAndAllGoToTheMean) {
  for (const int ranks : {1, 2, 4, 6}) {
    run(ranks, [ranks](Context& context) {
      const Schedule schedule = *undirected_one_peer(ranks);
      Result<DPsgd> dpsgd = DPsgd::create(context, schedule);
      ASSERT_TRUE(dpsgd.ok());
      constexpr std::size_t kCount = 500;
      Array<double> x(kCount, false), y(kCount, false);
      for (std::size_t i = 0; i < kCount; ++i) x[i] = context.rank();
      expect_ok(dpsgd->step(in(x.data(), kCount), out(y.data(), kCount)));
      const LocalView view = schedule.local_view(0, context.rank());
      const Rank peer = view.in.empty() ? context.rank() : view.in[0].rank;
      EXPECT_TRUE(holds(y.data(), kCount, (context.rank() + peer) / 2.0));
      for (int step = 0; step < 90; ++step)
        expect_ok(dpsgd->step(in(y.data(), kCount), out(y.data(), kCount)));
      EXPECT_TRUE(holds(y.data(), kCount, (ranks - 1) / 2.0, 1e-9));
      EXPECT_EQ(dpsgd->steps(), 91U);
    });
  }
}

TEST(DPsgdErrors, AScheduleWithoutPairsIsRefused) {
  run_job(3, [](Context& context) {
    EXPECT_EQ(DPsgd::create(context, *undirected_one_peer(4)).status().code(),
              Code::invalid_argument);
    const Schedule ring = one_peer(*ring_graph(3, RingStyle::next));
    Result<DPsgd> dpsgd = DPsgd::create(context, ring);
    ASSERT_TRUE(dpsgd.ok());
    double x = 0;
    const Status refused = dpsgd->step(in(&x, 1), out(&x, 1));
    EXPECT_EQ(refused.text(), "D-PSGD: step 0 of the schedule " + ring.name() +
                                  " does not pair rank " + std::to_string(context.rank()) +
                                  " with one other rank");
    EXPECT_EQ(dpsgd->steps(), 0U);
  });
}

}  // namespace
}  // namespace weft
