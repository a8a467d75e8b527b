// Push-sum: what a step gives, what is conserved, and who waits for whom.
#include <latch>
#include <random>

#include "engine/algorithms/algorithms.h"
#include "tests/window/window_job.h"

namespace weft {
namespace {

class PushSumTest : public OverBoth {};
INSTANTIATE_TEST_SUITE_P(Ways, PushSumTest, kBothWays, name_of);

constexpr std::size_t kCount = 300;

// What rank `rank` begins with.
double first(Rank rank, std::size_t i) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) * 1000 + i);
  return std::uniform_real_distribution<double>(-1, 1)(random);
}

struct Exchange {
  Exchange(Context& context, const Schedule& schedule, const PushSumOptions& options = {})
      : x(kCount, false), z(kCount, false) {
    for (std::size_t i = 0; i < kCount; ++i) x[i] = first(context.rank(), i);
    Result<PushSum> made = PushSum::create(context, schedule, out(x.data(), kCount), options);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (made.ok()) push_sum.emplace(*std::move(made));
  }
  PushSum* operator->() { return &*push_sum; }
  void debias() { expect_ok(push_sum->debias(out(z.data(), kCount))); }

  Array<double> x;
  Array<double> z;
  std::optional<PushSum> push_sum;
};

void expect_exact_means(Context& context) {
  const int ranks = context.size();
  Exchange exchange(context, *one_peer_exponential(ranks));
  ASSERT_TRUE(exchange.push_sum);
  for (int reached = 1; reached < ranks; reached *= 2) expect_ok(exchange->step());
  exchange.debias();
  EXPECT_TRUE(holds(
      exchange.z.data(), kCount,
      [&](std::size_t i) {
        double sum = 0;
        for (Rank rank = 0; rank < ranks; ++rank) sum += first(rank, i);
        return sum / ranks;
      },
      1e-12));
  EXPECT_NEAR(exchange->weight().value(), 1.0, 1e-12);
  expect_ok(exchange->end());
}

// The process has the memory of all ranks, so connections are small.
TEST(PushSumExact, OnePeerExponentialHoldsTheMeanAfterOneCycle) {
  Config config = test_config();
  config.channels = 2;
  config.slots = 2;
  config.eager_bytes = 1024;
  for (const int ranks : {1, 2, 4, 8, 16, 32, 64}) run_job(ranks, expect_exact_means, config);
}

TEST_P(PushSumTest, HoldsTheMeanAfterOneCycle) {
  for (const int ranks : {2, 8}) run(ranks, expect_exact_means);
}

// W = 1/n: a step of push-sum is an allreduce, to the bit where 1/n is exact.
TEST_P(PushSumTest, WithWeightsOf1OverNIsAnAllreduce) {
  for (const int ranks : {2, 4, 8}) {
    run(ranks, [](Context& context) {
      const int size = context.size();
      const Schedule all({"all", size, 1, 1}, [size](std::uint64_t, Rank rank) {
        LocalView view;
        view.rank = rank;
        view.size = size;
        view.self_weight = 1.0 / size;
        for (Rank other = 0; other < size; ++other) {
          if (other == rank) continue;
          view.in.push_back({other, 1.0 / size});
          view.out.push_back({other, 1.0 / size});
        }
        return view;
      });
      Exchange exchange(context, all);
      ASSERT_TRUE(exchange.push_sum);
      Array<double> mean(kCount, false);
      expect_ok(context.allreduce(in(exchange.x.data(), kCount), out(mean.data(), kCount),
                                  ReduceOp::average, AllreduceAlgorithm::direct));
      expect_ok(exchange->step());
      exchange.debias();
      EXPECT_TRUE(holds(exchange.z.data(), kCount, [&](std::size_t i) { return mean[i]; }));
      expect_ok(exchange->end());
    });
  }
}

// The x of all ranks after so many steps, from the matrices.
std::vector<double> by_matrices(const Schedule& schedule, int steps, std::size_t i) {
  std::vector<double> x;
  for (Rank rank = 0; rank < schedule.size(); ++rank) x.push_back(first(rank, i));
  for (int step = 0; step < steps; ++step) {
    const Graph graph = *step_graph(schedule, static_cast<std::uint64_t>(step));
    std::vector<double> next;
    for (Rank rank = 0; rank < schedule.size(); ++rank) {
      double sum = graph.self_weight(rank) * x[static_cast<std::size_t>(rank)];
      for (const Peer& from : graph.in_edges(rank))
        sum += from.weight * x[static_cast<std::size_t>(from.rank)];
      next.push_back(sum);
    }
    x = std::move(next);
  }
  return x;
}

// The messages of two steps never mix, although ranks do not wait for their receivers.
TEST_P(PushSumTest, SynchronousStepsAreTheProductOfTheMatrices) {
  constexpr int kSteps = 25;
  const Schedule schedules[] = {*one_peer_exponential(2), *two_peer_exponential(6),
                                one_peer(*star_graph(4)), one_peer(*ring_graph(5, RingStyle::next)),
                                one_peer(*erdos_renyi_graph(5, {.probability = 0.6, .seed = 3}))};
  for (const Schedule& schedule : schedules) {
    run(schedule.size(), [&](Context& context) {
      Exchange exchange(context, schedule);
      ASSERT_TRUE(exchange.push_sum);
      for (int step = 0; step < kSteps; ++step) expect_ok(exchange->step());
      EXPECT_TRUE(holds(
          exchange.x.data(), kCount,
          [&](std::size_t i) {
            return by_matrices(schedule, kSteps, i)[static_cast<std::size_t>(context.rank())];
          },
          1e-12))
          << schedule.name();
      EXPECT_EQ(exchange->steps(), static_cast<std::uint64_t>(kSteps));
      expect_ok(exchange->end());
    });
  }
}

// A number that is halved kRanks * kSteps = 48 times keeps all its bits, so the sums are exact.
TEST_P(PushSumTest, MassIsConserved) {
  constexpr int kRanks = 4;
  constexpr int kSteps = 12;
  for (const std::uint64_t lag : {std::uint64_t{0}, std::uint64_t{2}, kAnyLag}) {
    run(kRanks, [=](Context& context) {
      Exchange exchange(context, *one_peer_exponential(kRanks), {.lag = lag});
      ASSERT_TRUE(exchange.push_sum);
      for (std::size_t i = 0; i < kCount; ++i) exchange.x[i] = 1.0 + context.rank();
      expect_ok(context.barrier());
      for (int step = 0; step < kSteps; ++step) expect_ok(exchange->step());
      expect_ok(exchange->settle());
      double sum[] = {exchange.x[0], exchange.x[kCount - 1], exchange->weight().value()};
      expect_ok(context.allreduce(in(sum, 3), out(sum, 3), ReduceOp::sum));
      EXPECT_EQ(sum[0], 10.0);
      EXPECT_EQ(sum[1], 10.0);
      EXPECT_EQ(sum[2], kRanks);
      expect_ok(exchange->end());
    });
  }
}

TEST_P(PushSumTest, TwoPeersGoToTheMeanWithAnyLag) {
  constexpr int kRanks = 6;
  run(kRanks, [](Context& context) {
    Exchange exchange(context, *two_peer_exponential(kRanks), {.lag = kAnyLag});
    ASSERT_TRUE(exchange.push_sum);
    for (int step = 0; step < 120; ++step) {
      // Ranks that ran one after the other would not mix.
      if (step % 5 == 0) expect_ok(context.barrier());
      expect_ok(exchange->step());
    }
    expect_ok(exchange->settle());
    exchange.debias();
    double mean = 0;
    for (Rank rank = 0; rank < kRanks; ++rank) mean += first(rank, 7) / kRanks;
    EXPECT_NEAR(exchange.z[7], mean, 1e-9);
    expect_ok(exchange->end());
  });
}

// Rank 0 does not begin step kHeld before rank 1, which gets its messages, has come as far as the
// lag allows and was told whom it waits for.
TEST_P(PushSumTest, AStepWaitsForMessagesThatAreLaterThanTheLag) {
  constexpr std::uint64_t kHeld = 3;
  constexpr std::uint64_t kSteps = 10;
  for (const std::uint64_t lag : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3}}) {
    std::latch has_waited(1);
    run(3, [&, lag](Context& context) {
      Exchange exchange(context, one_peer(*ring_graph(3, RingStyle::next)), {.lag = lag});
      ASSERT_TRUE(exchange.push_sum);
      for (std::uint64_t step = 0; step < kSteps; ++step) {
        if (context.rank() == 0 && step == kHeld) has_waited.wait();
        expect_ok(exchange->begin_step());
        if (context.rank() == 1 && step == kHeld + lag) {
          const Status late = exchange->end_step(0);
          EXPECT_EQ(late.code(), Code::timed_out) << late.to_string();
          EXPECT_EQ(late.rank(), 0);
          EXPECT_NE(late.text().find("rank 0 has sent 3 messages, and 4 are needed"),
                    std::string_view::npos)
              << late.text();
          has_waited.count_down();
        }
        expect_ok(exchange->end_step());
      }
      expect_ok(exchange->end());
    });
  }
}

TEST_P(PushSumTest, WithAnyLagNobodyIsWaitedFor) {
  std::latch is_done(1);
  run(4, [&](Context& context) {
    Exchange exchange(context, *one_peer_exponential(4), {.lag = kAnyLag});
    ASSERT_TRUE(exchange.push_sum);
    for (std::size_t i = 0; i < kCount; ++i) exchange.x[i] = 1.0 + context.rank();
    expect_ok(context.barrier());
    if (context.rank() != 2) is_done.wait();
    for (int step = 0; step < 20; ++step) expect_ok(exchange->step());
    if (context.rank() == 2) is_done.count_down();
    expect_ok(exchange->settle());
    double sum[] = {exchange.x[0], exchange->weight().value()};
    expect_ok(context.allreduce(in(sum, 2), out(sum, 2), ReduceOp::sum));
    EXPECT_NEAR(sum[0], 10.0, 1e-12);
    EXPECT_NEAR(sum[1], 4.0, 1e-12);
    expect_ok(exchange->end());
  });
}

// While its messages travel a rank computes, and may do so for as long as it likes.
TEST_P(PushSumTest, MessagesTravelWhileTheirSenderComputes) {
  std::latch has_arrived(1);
  run(2, [&](Context& context) {
    Exchange exchange(context, *one_peer_exponential(2));
    ASSERT_TRUE(exchange.push_sum);
    expect_ok(exchange->begin_step());
    if (context.rank() == 0) has_arrived.wait();
    expect_ok(exchange->end_step());
    if (context.rank() == 1) has_arrived.count_down();
    exchange.debias();
    EXPECT_NEAR(exchange.z[5], (first(0, 5) + first(1, 5)) / 2, 1e-12);
    expect_ok(exchange->end());
  });
}

TEST(PushSumErrors, NameWhatIsWrong) {
  run_job(2, [](Context& context) {
    const auto text = [](const Status& status) { return std::string(status.text()); };
    Array<double> x(kCount, false);
    const Output tensor = out(x.data(), kCount);
    const auto three = PushSum::create(context, *one_peer_exponential(3), tensor);
    EXPECT_EQ(text(three.status()), "push-sum \"push_sum\": the schedule " +
                                        one_peer_exponential(3)->name() +
                                        " has 3 ranks, and the context 2");
    const auto integers =
        PushSum::create(context, *one_peer_exponential(2), {x.data(), kCount, DataType::i64});
    EXPECT_EQ(text(integers.status()), "push-sum \"push_sum\": a model of i64 cannot be averaged");

    const Schedule greedy({.name = "greedy", .size = 2}, [](std::uint64_t, Rank rank) {
      return LocalView{rank, 2, {{1 - rank, 0.25}}, {{1 - rank, 0.25}}, 0.5};
    });
    auto leaks = PushSum::create(context, greedy, tensor, {.name = "leaks"});
    ASSERT_TRUE(leaks.ok()) << leaks.status().to_string();
    EXPECT_EQ(text(leaks->begin_step()), "push-sum \"leaks\": step 0: the shares of rank " +
                                             std::to_string(context.rank()) +
                                             " sum to 0.75, not to 1");
    EXPECT_EQ(text(leaks->end_step()), "push-sum \"leaks\": no step has begun");
    expect_ok(leaks->end());

    auto push_sum = PushSum::create(context, *one_peer_exponential(2), tensor);
    ASSERT_TRUE(push_sum.ok()) << push_sum.status().to_string();
    expect_ok(push_sum->begin_step());
    EXPECT_EQ(push_sum->begin_step().code(), Code::invalid_argument);
    EXPECT_EQ(push_sum->debias(out(x.data(), kCount)).code(), Code::invalid_argument);
    expect_ok(push_sum->end_step());
    EXPECT_EQ(push_sum->debias(out(x.data(), 1)).code(), Code::invalid_argument);
    expect_ok(push_sum->end());
  });
}

}  // namespace
}  // namespace weft
