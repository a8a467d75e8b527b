// Gradient exchange by owners of shares, and in fewer bytes: what travels, that all ranks take the same, and who
// counts as a contributor.
#include <algorithm>
#include <cmath>
#include <latch>

#include "tests/algorithms/exchange_worker.h"

namespace weft {
namespace {

constexpr ExchangeTopology kBoth[] = {ExchangeTopology::all_to_all, ExchangeTopology::mesh};

class MeshTest : public OverBoth {};
INSTANTIATE_TEST_SUITE_P(Ways, MeshTest, kBothWays, name_of);

// All ranks wait for each other, and then take what has come, until nothing is under way.
template <typename T>
void drain(Context& context, Worker<T>& worker, std::vector<T>& sums) {
  for (int round = 0; round < 3; ++round) {
    expect_ok(context.barrier());
    for (int each = 0; each < 2; ++each) {
      expect_ok(worker->begin());
      (void)worker.end();
      for (std::size_t i = 0; i < kCount; ++i) sums[i] += worker.mean[i];
    }
  }
}

TEST_P(MeshTest, AnIterationTakesLessThanTwoModels) {
  for (const int ranks : {2, 5}) {
    run(ranks, [](Context& context) {
      Worker<float> worker(context,
                           {.rule = ExchangeRule::bulk, .topology = ExchangeTopology::mesh});
      ASSERT_TRUE(worker.exchange);
      for (int iteration = 0; iteration < 3; ++iteration)
        (void)worker.iterate(static_cast<float>(context.rank()));
      EXPECT_TRUE(holds(worker.mean.data(), kCount, (context.size() - 1) / 2.0));
      const auto others = static_cast<std::size_t>(context.size() - 1);
      EXPECT_EQ(worker->counts().bytes, 3 * 2 * others * (kCount / (others + 1)) * sizeof(float));
      expect_ok(worker->end());
    });
  }
}

// Some of five ranks own nothing of a colayer of three elements.
TEST_P(MeshTest, AColayerMayBeSmallerThanTheJob) {
  run(5, [](Context& context) {
    const std::vector<std::size_t> colayers{3, 1, 7};
    Array<double> model(11, false), slope(11, false), mean(11, false);
    Result<GradientExchange> exchange =
        GradientExchange::create(context, out(model.data(), 11), colayers,
                                 {.rule = ExchangeRule::bulk, .topology = ExchangeTopology::mesh});
    ASSERT_TRUE(exchange.ok()) << exchange.status().to_string();
    for (int iteration = 0; iteration < 4; ++iteration) {
      expect_ok(exchange->begin());
      std::size_t at = 0;
      for (std::size_t i = 0; i < 11; ++i)
        slope[i] = static_cast<double>(i) + context.rank() + iteration;
      for (int each = 0; each < 3; ++each) {
        const std::size_t count = colayers[static_cast<std::size_t>(each)];
        expect_ok(exchange->push(each, in(slope.data() + at, count)));
        at += count;
      }
      expect_ok(exchange->end_iteration(out(mean.data(), 11)).status());
      EXPECT_TRUE(holds(
          mean.data(), 11, [&](std::size_t i) { return static_cast<double>(i) + 2 + iteration; },
          1e-12));
    }
    expect_ok(exchange->end());
  });
}

// Rank 0 is far ahead. In the end all ranks have taken the same means, and every gradient is in one.
TEST_P(MeshTest, AllRanksTakeTheSameMeansWhoeverIsAhead) {
  constexpr int kAhead = 20;
  std::latch is_ahead(1);
  run(2, [&](Context& context) {
    Worker<double> worker(context,
                          {.rule = ExchangeRule::asynchronous, .topology = ExchangeTopology::mesh});
    ASSERT_TRUE(worker.exchange);
    std::vector<double> sums(kCount);
    expect_ok(context.barrier());
    if (context.rank() == 1) is_ahead.wait();
    for (int iteration = 0; iteration < (context.rank() == 0 ? kAhead : 1); ++iteration) {
      (void)worker.iterate(context.rank() == 0 ? 1.0 : 5.0);
      for (std::size_t i = 0; i < kCount; ++i) sums[i] += worker.mean[i];
    }
    if (context.rank() == 0) is_ahead.count_down();
    drain(context, worker, sums);
    // Rank 0 owns the first half of each colayer. It has added up its gradients one by one, and then that of rank 1.
    // Rank 1 had them all at once, and its own.
    for (std::size_t begin = 0; const std::size_t count : kColayers) {
      EXPECT_TRUE(holds(sums.data() + begin, count / 2, kAhead * 1.0 + 5.0));
      EXPECT_TRUE(holds(sums.data() + begin + count / 2, count / 2, (kAhead * 1.0 + 5.0) / 2));
      begin += count;
    }
    expect_ok(worker->end());
  });
}

// Rank 1 drops its gradients and pulls the model of rank 0. What it owns of the others' gradients still counts, also
// in its own model.
TEST_P(MeshTest, ARankThatDropsStillAddsUpItsShares) {
  constexpr int kStaleness = 4;
  std::latch is_ahead(1);
  run(2, [&](Context& context) {
    Worker<double> worker(context, {.rule = ExchangeRule::canary,
                                    .staleness = kStaleness,
                                    .proportion = 2,
                                    .rate = 0.5,
                                    .topology = ExchangeTopology::mesh});
    ASSERT_TRUE(worker.exchange);
    std::fill_n(worker.x.data(), kCount, 0.0);
    expect_ok(worker->update([] {}));
    expect_ok(worker->begin());
    expect_ok(context.barrier());
    if (context.rank() == 0) {
      // When the last one ends, what the others sent has arrived.
      for (int iteration = 0; iteration <= kStaleness + 1; ++iteration) {
        if (iteration <= kStaleness) worker.push(0, 3, 1.0);
        EXPECT_FALSE(worker.end().is_dropped);
        expect_ok(worker->begin());
      }
      is_ahead.count_down();
    } else {
      is_ahead.wait();
    }
    expect_ok(context.barrier());
    const bool is_late = context.rank() == 1;
    if (is_late) worker.push(0, 3, 7.0);
    const EndedIteration ended = worker.end();
    EXPECT_EQ(ended.is_dropped, is_late);
    EXPECT_EQ(ended.pulled_from, is_late ? 0 : kNoRank);
    std::vector<double> unused(kCount);
    drain(context, worker, unused);
    // Five gradients of 1 in both halves, and none of 7.
    EXPECT_TRUE(holds(worker.x.data(), kCount, -0.5 * (kStaleness + 1)));
    expect_ok(worker->end());
  });
}

TEST_P(MeshTest, ARankThatLeavesIsAnErrorBecauseItOwnsShares) {
  for (const ExchangeRule rule : {ExchangeRule::bulk, ExchangeRule::asynchronous}) {
    std::latch is_done(2);
    run(3, [&, rule](Context& context) {
      Worker<float> worker(context, {.rule = rule, .topology = ExchangeTopology::mesh});
      ASSERT_TRUE(worker.exchange);
      (void)worker.iterate(1.0F);
      if (rule != ExchangeRule::bulk) expect_ok(context.barrier());  // what was sent to it has come
      if (context.rank() == 2) return;
      Status status;
      while (status.ok()) {
        status = worker->begin();
        for (int each = 0; each < 3 && status.ok(); ++each)
          status = worker->push(each,
                                in(worker.slope.data(), kColayers[static_cast<std::size_t>(each)]));
        if (status.ok()) status = worker->end_iteration(out(worker.mean.data(), kCount)).status();
      }
      EXPECT_EQ(status.code(), Code::peer_left) << status.to_string();
      EXPECT_EQ(status.rank(), 2) << status.to_string();
      EXPECT_EQ(worker->begin().code(), Code::peer_left);
      is_done.arrive_and_wait();
    });
  }
}

// What a compression may change of values between -1 and 1.
double tolerance(Compression compression) {
  switch (compression) {
    case Compression::f16:
      return 1e-3;
    case Compression::bf16:
      return 8e-3;
    default:
      return 0.15;
  }
}

float element(Rank rank, int iteration, std::size_t i) {
  return std::sin(static_cast<float>(i * 7 + static_cast<std::size_t>(rank) * 3 +
                                     static_cast<std::size_t>(iteration) * 11));
}

// The sum of the means stays near to that of all gradients: what a message loses, a later one has.
TEST(ExchangeCompressed, MeansAndTheirSumAreNearToThoseOfAll) {
  for (const ExchangeTopology topology : kBoth) {
    for (const Compression compression : {Compression::f16, Compression::bf16, Compression::sketch,
                                          Compression::e4m3, Compression::e5m2}) {
      run_job(3, [=](Context& context) {
        SCOPED_TRACE(std::string(name(compression)) + " " + std::string(name(topology)));
        constexpr std::size_t kLarge = 9000;
        constexpr int kIterations = 12;
        const std::size_t colayers[] = {6000, 3000};
        Array<float> x(kLarge, false), slope(kLarge, false), mean(kLarge, false);
        Result<GradientExchange> exchange = GradientExchange::create(
            context, out(x.data(), kLarge), colayers,
            {.rule = ExchangeRule::bulk, .topology = topology, .compression = compression});
        ASSERT_TRUE(exchange.ok()) << exchange.status().to_string();
        std::vector<double> sums(kLarge), wants(kLarge);
        for (int iteration = 0; iteration < kIterations; ++iteration) {
          expect_ok(exchange->begin());
          for (std::size_t i = 0; i < kLarge; ++i) slope[i] = element(context.rank(), iteration, i);
          expect_ok(exchange->push(0, in(slope.data(), 6000)));
          expect_ok(exchange->push(1, in(slope.data() + 6000, 3000)));
          const Result<EndedIteration> ended = exchange->end_iteration(out(mean.data(), kLarge));
          ASSERT_TRUE(ended.ok()) << ended.status().to_string();
          EXPECT_EQ(ended->contributors, std::vector<int>(2, 3));
          for (std::size_t i = 0; i < kLarge; ++i) {
            for (Rank rank = 0; rank < 3; ++rank) wants[i] += element(rank, iteration, i) / 3;
            sums[i] += mean[i];
          }
          EXPECT_TRUE(holds(
              sums.data(), kLarge, [&](std::size_t i) { return wants[i]; },
              2 * tolerance(compression)))
              << iteration;
        }
        const std::uint64_t plain =
            (topology == ExchangeTopology::mesh ? 4 : 6) * kLarge / 3 * sizeof(float) * kIterations;
        EXPECT_LT(exchange->counts().bytes, plain * 6 / 10);
        expect_ok(exchange->end());
      });
    }
  }
}

// No compression makes a gradient of zeros a missing one, or a missing one a gradient.
TEST(ExchangeCompressed, ContributorsAreExact) {
  run_job(3, [](Context& context) {
    Worker<float> worker(context,
                         {.rule = ExchangeRule::asynchronous, .compression = Compression::sketch});
    ASSERT_TRUE(worker.exchange);
    std::vector<int> contributors(3);
    for (const int last : {context.rank(), 0}) {
      expect_ok(worker->begin());
      worker.push(0, last, 0.0F);
      const EndedIteration ended = worker.end();
      for (std::size_t each = 0; each < 3; ++each) contributors[each] += ended.contributors[each];
      EXPECT_TRUE(holds(worker.mean.data(), kCount, 0.0));
      expect_ok(context.barrier());
    }
    EXPECT_EQ(contributors, (std::vector{2, 1, 0}));
    expect_ok(worker->end());
  });
}

}  // namespace
}  // namespace weft
