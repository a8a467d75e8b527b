// AD-PSGD: averages are whole, on any graph, while every rank begins some.
#include <latch>

#include "engine/algorithms/algorithms.h"
#include "tests/window/window_job.h"

namespace weft {
namespace {

class AdPsgdTest : public OverBoth {};
INSTANTIATE_TEST_SUITE_P(Ways, AdPsgdTest, kBothWays, name_of);

constexpr std::size_t kCount = 3000;

struct Learner {
  Learner(Context& context, double value) : x(kCount, false) {
    for (std::size_t i = 0; i < kCount; ++i) x[i] = value;
    Result<AdPsgd> made = AdPsgd::create(context, out(x.data(), kCount));
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (made.ok()) ad_psgd.emplace(*std::move(made));
  }
  AdPsgd* operator->() { return &*ad_psgd; }

  Array<double> x;
  std::optional<AdPsgd> ad_psgd;
};

double sum_over_ranks(Context& context, double mine) {
  double sum = 0;
  expect_ok(context.allreduce(in(&mine, 1), out(&sum, 1), ReduceOp::sum));
  return sum;
}

// None of these graphs is bipartite but the star, and on all of them every rank begins averages.
// The elements of a model are equal as long as no two averages mix.
TEST_P(AdPsgdTest, RanksAgreeOnAnyGraph) {
  const Graph graphs[] = {*ring_graph(5), *star_graph(5, 0), *fully_connected_graph(4),
                          *exponential_graph(6)};
  for (const Graph& graph : graphs) {
    run(graph.size(), [&](Context& context) {
      expect_ok(context.set_graph(graph));
      Learner learner(context, context.rank());
      ASSERT_TRUE(learner.ad_psgd);
      expect_ok(context.barrier());
      for (int round = 0; round < 10; ++round) {
        // Ranks that ran one after the other would not mix.
        expect_ok(context.barrier());
        for (int each = 0; each < 4; ++each) {
          const Result<Rank> peer = learner->average();
          ASSERT_TRUE(peer.ok()) << peer.status().to_string();
          EXPECT_NE(*peer, context.rank());
        }
      }
      expect_ok(context.barrier());
      const double mean = (graph.size() - 1) / 2.0;
      EXPECT_TRUE(holds(learner.x.data(), kCount, mean, 1e-3)) << graph.name();
      EXPECT_TRUE(holds(learner.x.data(), kCount, learner.x[0])) << graph.name();
      EXPECT_NEAR(sum_over_ranks(context, learner.x[kCount / 2]), mean * graph.size(), 1e-9);
      expect_ok(learner->end());
    });
  }
}

// An update between two halves of an average would be overwritten.
TEST_P(AdPsgdTest, NoUpdateIsLost) {
  constexpr int kRanks = 3;
  constexpr int kUpdates = 60;
  run(kRanks, [](Context& context) {
    expect_ok(context.set_graph(*fully_connected_graph(kRanks)));
    Learner learner(context, 0);
    ASSERT_TRUE(learner.ad_psgd);
    for (int each = 0; each < kUpdates; ++each) {
      // Ranks that ran one after the other would lose nothing.
      if (each % 5 == 0) expect_ok(context.barrier());
      expect_ok(learner->update([&] {
        for (std::size_t i = 0; i < kCount; ++i) learner.x[i] += 1;
      }));
      ASSERT_TRUE(learner->average().ok());
    }
    expect_ok(context.barrier());
    Array<double> y(kCount, true);
    expect_ok(learner->read(out(y.data(), kCount)));
    EXPECT_TRUE(holds(y.data(), kCount, y[0]));
    EXPECT_NEAR(sum_over_ranks(context, y[0]), kRanks * kUpdates, 1e-9);
    expect_ok(context.barrier());
    expect_ok(learner->end());
  });
}

TEST_P(AdPsgdTest, ThePassiveRankTakesNoPart) {
  std::latch is_done(1);
  run(2, [&](Context& context) {
    Learner learner(context, context.rank());
    ASSERT_TRUE(learner.ad_psgd);
    expect_ok(context.barrier());
    if (context.rank() == 0) {
      for (int each = 0; each < 10; ++each) expect_ok(learner->average_with(1));
      is_done.count_down();
    } else {
      is_done.wait();
    }
    EXPECT_TRUE(holds(learner.x.data(), kCount, 0.5));
    expect_ok(context.barrier());
    expect_ok(learner->end());
  });
}

// The threads of AD-PSGD: one trains, the other averages.
TEST(AdPsgdThreads, SeveralThreadsOfARankMayUseIt) {
  run_job(3, [](Context& context) {
    expect_ok(context.set_graph(*ring_graph(3)));
    Learner learner(context, 0);
    ASSERT_TRUE(learner.ad_psgd);
    expect_ok(context.barrier());
    std::thread averages([&] {
      for (int each = 0; each < 50; ++each) EXPECT_TRUE(learner->average().ok());
    });
    for (int each = 0; each < 50; ++each) {
      expect_ok(learner->update([&] {
        for (std::size_t i = 0; i < kCount; ++i) learner.x[i] += 1;
      }));
    }
    averages.join();
    expect_ok(context.barrier());
    EXPECT_TRUE(holds(learner.x.data(), kCount, learner.x[0]));
    EXPECT_NEAR(sum_over_ranks(context, learner.x[0]), 150, 1e-9);
    expect_ok(learner->end());
  });
}

TEST(AdPsgdErrors, NameWhatIsWrong) {
  run_job(3, [](Context& context) {
    expect_ok(context.set_graph(*ring_graph(3, RingStyle::next)));
    const Rank before = (context.rank() + 2) % 3;
    Learner learner(context, 1);
    ASSERT_TRUE(learner.ad_psgd);
    const Status refused = learner->average_with(before);
    EXPECT_EQ(refused.text(), "AD-PSGD \"ad_psgd\": rank " + std::to_string(context.rank()) +
                                  " has no out-neighbor " + std::to_string(before));
    float y = 0;
    EXPECT_EQ(learner->read(out(&y, 1)).code(), Code::invalid_argument);
    EXPECT_EQ(learner->read({nullptr, kCount, DataType::f64}).text(),
              "AD-PSGD \"ad_psgd\": y has no memory");
    EXPECT_EQ(learner->update(nullptr).code(), Code::invalid_argument);
    expect_ok(context.barrier());
    expect_ok(learner->end());
    const std::string wrong = "AD-PSGD \"ad_psgd\": a model of i32 cannot be averaged";
    const DataType type = context.rank() == 1 ? DataType::i32 : DataType::f32;
    EXPECT_EQ(AdPsgd::create(context, {&y, 1, type}).status().text(),
              context.rank() == 1 ? wrong : "rank 1: " + wrong);
  });
}

TEST(AdPsgdErrors, ARankAloneAveragesWithNobody) {
  run_job(1, [](Context& context) {
    Learner learner(context, 1);
    ASSERT_TRUE(learner.ad_psgd);
    EXPECT_EQ(learner->average().value(), kNoRank);
    expect_ok(learner->end());
  });
}

}  // namespace
}  // namespace weft
