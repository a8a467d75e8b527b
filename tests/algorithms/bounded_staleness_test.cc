// Bounded staleness: how far ranks get while one of them is held.
#include <latch>

#include "engine/algorithms/algorithms.h"
#include "tests/window/window_job.h"

namespace weft {
namespace {

class StalenessTest : public OverBoth {};
INSTANTIATE_TEST_SUITE_P(Ways, StalenessTest, kBothWays, name_of);

constexpr std::size_t kCount = 200;

struct Learner {
  Learner(Context& context, double value, std::uint64_t bound) : x(kCount, false) {
    for (std::size_t i = 0; i < kCount; ++i) x[i] = value;
    Result<BoundedStaleness> made =
        BoundedStaleness::create(context, out(x.data(), kCount), {.bound = bound});
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (made.ok()) bounded.emplace(*std::move(made));
  }
  BoundedStaleness* operator->() { return &*bounded; }

  Array<double> x;
  std::optional<BoundedStaleness> bounded;
};

// Rank 0 stops after version kHeld until both others have come as far as they may, and were told
// whom they wait for.
TEST_P(StalenessTest, RanksGetAheadOfASlowOneByTheBound) {
  constexpr std::uint64_t kHeld = 3;
  constexpr std::uint64_t kVersions = 12;
  for (const std::uint64_t bound : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4}}) {
    std::latch have_waited(2);
    run(3, [&, bound](Context& context) {
      expect_ok(context.set_graph(*fully_connected_graph(3)));
      Learner learner(context, context.rank(), bound);
      ASSERT_TRUE(learner.bounded);
      while (learner->version() < kVersions) {
        if (context.rank() == 0 && learner->version() == kHeld) have_waited.wait();
        expect_ok(learner->publish());
        if (context.rank() != 0 && learner->version() == kHeld + bound + 1) {
          const Status late = learner->wait(0);
          EXPECT_EQ(late.code(), Code::timed_out) << late.to_string();
          EXPECT_EQ(late.rank(), 0);
          EXPECT_EQ(late.text(),
                    "bounded staleness \"bounded_staleness\": rank 0 has delivered 3 versions, "
                    "and 4 are needed");
          EXPECT_EQ(learner->delivered().value().front(), kHeld);
          have_waited.count_down();
        }
        expect_ok(learner->wait());
        const std::vector<std::uint64_t> delivered = learner->delivered().value();
        for (const std::uint64_t version : delivered)
          EXPECT_GE(version + bound, learner->version());
        expect_ok(learner->average());
      }
      expect_ok(learner->end());
    });
  }
}

TEST_P(StalenessTest, AveragesTheNewestVersions) {
  run(3, [](Context& context) {
    const Rank rank = context.rank();
    expect_ok(context.set_graph(*ring_graph(3, RingStyle::next)));
    Learner learner(context, rank, 5);
    ASSERT_TRUE(learner.bounded);
    for (int version = 1; version <= 3; ++version) {
      for (std::size_t i = 0; i < kCount; ++i) learner.x[i] = 100 * version + rank;
      expect_ok(learner->publish());
      expect_ok(learner->wait());
    }
    expect_ok(context.barrier());
    expect_ok(learner->average());
    EXPECT_TRUE(holds(learner.x.data(), kCount, 300 + (rank + (rank + 2) % 3) / 2.0));
    EXPECT_EQ(learner->delivered().value(), std::vector<std::uint64_t>{3});
    expect_ok(learner->end());
  });
}

// Before any delivery the average leaves x as it is.
TEST_P(StalenessTest, TheFirstTensorStandsForWhatHasNotCome) {
  run(2, [](Context& context) {
    Learner learner(context, 7, 1);
    ASSERT_TRUE(learner.bounded);
    expect_ok(learner->average());
    EXPECT_TRUE(holds(learner.x.data(), kCount, 7.0));
    EXPECT_EQ(learner->delivered().value(), std::vector<std::uint64_t>{0});
    expect_ok(context.barrier());
    for (int each = 0; each < 20; ++each) expect_ok(learner->step());
    EXPECT_TRUE(holds(learner.x.data(), kCount, 7.0, 1e-12));
    expect_ok(learner->end());
  });
}

}  // namespace
}  // namespace weft
