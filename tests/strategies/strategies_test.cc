// Every strategy against a plain reference, the bytes that it counts, and who waits for whom.
#include "engine/strategies/strategies.h"

#include <latch>

#include "tests/strategies/reference.h"
#include "tests/window/window_job.h"

namespace weft {
namespace {

constexpr std::size_t kCount = 37;

struct Case {
  std::string name;
  StrategyOptions options{};
  std::vector<int> ranks{1, 2, 3, 4, 6};
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* name : {"parameter_server", "sharded_server", "allreduce", "ring",
                           "hierarchical", "dpsgd", "dpsgd:awc", "dmsgd", "qg_dmsgd", "sgp",
                           "local_sgd", "diloco", "prague:static", "canary:bulk"}) {
    all.push_back({name});
    all.push_back({name, {.momentum = 0.6}});
  }
  for (const char* name : {"dpsgd", "dpsgd:awc", "dmsgd", "qg_dmsgd", "sgp"})
    for (const int peers : {1, 2}) all.push_back({name, {.peers = peers}});
  for (const char* name : {"local_sgd", "diloco", "prague:static"})
    for (const int section : {1, 3}) all.push_back({name, {.section = section}});
  all.push_back({"diloco", {.outer_rate = 1.0, .outer_momentum = 0.0}});
  all.push_back({"canary:bulk", {.colayers = 3}});
  all.push_back({"canary:bulk", {.momentum = 0.6, .topology = ExchangeTopology::mesh}});
  for (const char* name : {"canary", "canary:bounded", "canary:asynchronous"})
    for (const auto topology : {ExchangeTopology::all_to_all, ExchangeTopology::mesh})
      all.push_back({name, {.momentum = 0.6, .colayers = 4, .topology = topology}, {1}});
  all.push_back({"noloco", {}, {1, 2}});
  all.push_back({"noloco", {.section = 3, .outer_rate = 0.5, .outer_momentum = 0.2}, {1, 2}});
  return all;
}

// Half of the ranks call begin(), the others leave it to step().
void take_step(Strategy& strategy, const Context& context, double* model) {
  if (context.rank() % 2 == 0) expect_ok(strategy.begin());
  const Tensor slope = slope_at(context.rank(), model, kCount);
  expect_ok(strategy.step(in(slope.data(), kCount)));
}

Result<Strategy> create(Context& context, const std::string& name, Array<double>& model,
                        StrategyOptions options = {}) {
  options.rate = kRate;
  // Those of other ranks are overwritten by the model of rank 0.
  const Tensor first = first_model(kCount);
  for (std::size_t i = 0; i < kCount; ++i) model[i] = context.rank() == 0 ? first[i] : -1;
  return Strategy::create(context, name, out(model.data(), kCount), options);
}

TEST(Strategies, EachTakesTheStepsOfItsFormula) {
  for (const int ranks : {1, 2, 3, 4, 6}) {
    run_job(ranks, [&](Context& context) {
      for (const Case& each : cases()) {
        if (std::ranges::find(each.ranks, ranks) == each.ranks.end()) continue;
        SCOPED_TRACE(each.name + " of " + std::to_string(ranks));
        Reference reference(each.name, each.options, ranks, kCount);
        expect_ok(context.set_graph(*exponential_graph(ranks)));
        Array<double> model(kCount, false);
        Result<Strategy> strategy = create(context, each.name, model, each.options);
        ASSERT_TRUE(strategy.ok()) << strategy.status().to_string();
        EXPECT_EQ(strategy->name(), each.name);
        for (int step = 0; step < 11; ++step) {
          take_step(*strategy, context, model.data());
          reference.step();
          ASSERT_TRUE(holds(
              model.data(), kCount,
              [&](std::size_t i) { return reference.model(context.rank())[i]; }, 1e-9))
              << "step " << step;
        }
        EXPECT_EQ(strategy->counts().steps, 11U);
        expect_ok(strategy->end());
        if (each.name != "sgp") {
          reference.end();
          EXPECT_TRUE(holds(
              model.data(), kCount,
              [&](std::size_t i) { return reference.model(context.rank())[i]; }, 1e-9));
        }
        EXPECT_EQ(strategy->step(in(model.data(), kCount)).code(), Code::closed);
      }
    });
  }
}

// Whoever the pairs are, the mean of all ranks moves as if all were one pair.
TEST(Strategies, NoLoCoKeepsTheMeanOfAllRanks) {
  for (const int ranks : {4, 5}) {
    run_job(ranks, [&](Context& context) {
      Reference reference("noloco", {.section = 1}, ranks, kCount);
      Array<double> model(kCount, false), mean(kCount, false);
      Result<Strategy> strategy = create(context, "noloco", model, {.section = 1});
      ASSERT_TRUE(strategy.ok());
      // The slopes of the reference are at the models of the reference, so they must not depend on them.
      for (int step = 0; step < 3; ++step) {
        Tensor slope(kCount, context.rank());
        expect_ok(strategy->step(in(slope.data(), kCount)));
      }
      expect_ok(context.allreduce(in(model.data(), kCount), out(mean.data(), kCount)));
      const Tensor first = first_model(kCount);
      // s' = s - R g, whose momentum is added: g, (1 + b) g, (1 + b + b^2) g.
      const double slope = 0.5 * (ranks - 1) * kRate * 0.7 * (1 + 1.5 + 1.75);
      EXPECT_TRUE(holds(
          mean.data(), kCount, [&](std::size_t i) { return first[i] - slope; }, 1e-9));
      expect_ok(strategy->end());
    });
  }
}

// The caller takes the steps of a section by itself, and then one with the gradient 0.
TEST(Strategies, WhatTheCallerChangesIsPartOfTheSection) {
  run_job(4, [](Context& context) {
    for (const char* name : {"local_sgd", "diloco", "noloco"}) {
      SCOPED_TRACE(name);
      Array<double> whole(kCount, false), own(kCount, false);
      Result<Strategy> takes_all = create(context, name, whole, {.section = 3});
      Result<Strategy> exchanges = create(context, name, own, {.section = 1});
      ASSERT_TRUE(takes_all.ok() && exchanges.ok());
      const Tensor none(kCount);
      for (int step = 1; step <= 9; ++step) {
        take_step(*takes_all, context, whole.data());
        const Tensor slope = slope_at(context.rank(), own.data(), kCount);
        for (std::size_t i = 0; i < kCount; ++i) own[i] -= kRate * slope[i];
        if (step % 3 == 0) expect_ok(exchanges->step(in(none.data(), kCount)));
        EXPECT_TRUE(holds(
            own.data(), kCount, [&](std::size_t i) { return whole[i]; }, 1e-12));
      }
      EXPECT_EQ(takes_all->counts().bytes, exchanges->counts().bytes);
      expect_ok(takes_all->end());
      expect_ok(exchanges->end());
    }
  });
}

TEST(Strategies, TheBytesAreThoseThatTravel) {
  constexpr std::uint64_t kBytes = kCount * sizeof(double);
  const std::vector<std::pair<std::string, std::uint64_t>> each_of_4{
      {"parameter_server", kBytes},  {"sharded_server", kBytes * 3 / 2},
      {"allreduce", kBytes * 3 / 2}, {"dpsgd", 2 * kBytes},
      {"dmsgd", 4 * kBytes},         {"sgp", kBytes},
      {"diloco", kBytes * 3 / 20},   {"noloco", kBytes / 10},
      {"ad_psgd", 2 * kBytes},       {"canary:bulk", 3 * kBytes},
      {"canary", 3 * kBytes}};
  run_job(4, [&](Context& context) {
    for (const auto& [name, bytes] : each_of_4) {
      SCOPED_TRACE(name);
      expect_ok(context.set_graph(*exponential_graph(4)));
      Array<double> model(kCount, false);
      Result<Strategy> strategy = create(context, name, model);
      ASSERT_TRUE(strategy.ok());
      for (int step = 0; step < 10; ++step) take_step(*strategy, context, model.data());
      const bool is_server = name == "parameter_server" && context.rank() == 0;
      EXPECT_EQ(strategy->counts().bytes / 10, is_server ? 3 * bytes : bytes);
      expect_ok(strategy->end());
    }
  });
}

TEST(Strategies, ModelsTravelCompressed) {
  run_job(4, [&](Context& context) {
    for (const char* name :
         {"allreduce", "dpsgd", "dpsgd:awc", "dmsgd", "qg_dmsgd", "local_sgd", "diloco", "canary",
          "canary:bulk", "canary:bounded", "canary:asynchronous"}) {
      SCOPED_TRACE(name);
      expect_ok(context.set_graph(*exponential_graph(4)));
      Array<float> model(kCount, false);
      const StrategyOptions options{.rate = kRate, .compression = Compression::f16};
      Result<Strategy> strategy =
          Strategy::create(context, name, out(model.data(), kCount), options);
      ASSERT_TRUE(strategy.ok()) << strategy.status().to_string();
      Array<float> slope(kCount, false);
      for (std::size_t i = 0; i < kCount; ++i) slope[i] = 1.0F;
      for (int step = 0; step < 10; ++step) expect_ok(strategy->step(in(slope.data(), kCount)));
      EXPECT_LT(model[0], -1.3F);
      expect_ok(strategy->end());
    }
  });
}

// Every gradient is in the model of every rank in the end, whoever took how many steps.
TEST(Strategies, AMeshLeavesAllRanksWithOneModel) {
  for (const char* name : {"canary", "canary:bounded", "canary:asynchronous"}) {
    run_job(3, [&](Context& context) {
      SCOPED_TRACE(name);
      Array<double> model(kCount, false), lowest(kCount, false), highest(kCount, false);
      StrategyOptions options{.colayers = 4, .topology = ExchangeTopology::mesh};
      if (std::string(name) == "canary") options.staleness = 50;  // nobody drops
      Result<Strategy> strategy = create(context, name, model, options);
      ASSERT_TRUE(strategy.ok()) << strategy.status().to_string();
      for (int step = 0; step < 10; ++step) take_step(*strategy, context, model.data());
      // Colayers of 10, 9, 9 and 9 elements in shares of 4, 3, 3 and 3, to two owners and back.
      EXPECT_EQ(strategy->counts().bytes, 10 * 2 * 2 * 13 * sizeof(double));
      expect_ok(strategy->end());
      for (auto& [to, op] : {std::pair{&lowest, ReduceOp::min}, {&highest, ReduceOp::max}})
        expect_ok(context.allreduce(in(model.data(), kCount), out(to->data(), kCount), op));
      EXPECT_TRUE(holds(
          lowest.data(), kCount, [&](std::size_t i) { return highest[i]; }, 1e-12));
    });
  }
}

#ifdef HAS_UCX
TEST(Strategies, MachinesAverageAndGroupsCrossThem) {
  run_machines({0, 1, 0, 1}, [&](Context& context) {
    Array<double> model(kCount, false);
    Result<Strategy> strategy = create(context, "hierarchical", model);
    ASSERT_TRUE(strategy.ok()) << strategy.status().to_string();
    Reference all("allreduce", {}, 4, kCount);  // two machines, each the other's neighbor
    for (int step = 0; step < 4; ++step) {
      take_step(*strategy, context, model.data());
      all.step();
    }
    EXPECT_TRUE(holds(
        model.data(), kCount, [&](std::size_t i) { return all.model(0)[i]; }, 1e-9));
    expect_ok(strategy->end());

    Result<Strategy> groups = create(context, "prague:static", model);
    ASSERT_TRUE(groups.ok()) << groups.status().to_string();
    const Tensor slope(kCount, context.rank());
    expect_ok(groups->step(in(slope.data(), kCount)));
    // Iteration 0: local rank 0 of both machines, which are ranks 0 and 1.
    const double moved = context.rank() < 2 ? 0.5 : context.rank();
    const Tensor first = first_model(kCount);
    EXPECT_TRUE(holds(
        model.data(), kCount, [&](std::size_t i) { return first[i] - kRate * moved; }, 1e-9));
    expect_ok(groups->end());
  });
}
#endif

// Rank 1 takes no step before rank 0 has taken all of its steps.
TEST(Strategies, AdPsgdGoesOnWithoutASlowRank) {
  std::latch is_done(1);
  run_job(2, [&](Context& context) {
    Array<double> model(kCount, false);
    Result<Strategy> strategy = create(context, "ad_psgd", model);
    ASSERT_TRUE(strategy.ok());
    EXPECT_TRUE(strategy->runs_free());
    const Tensor slope(kCount, 1.0);
    const Tensor first = first_model(kCount);
    if (context.rank() == 0) {
      double here = 0, there = 0;  // how far the models have moved
      for (int step = 0; step < 100; ++step) {
        expect_ok(strategy->step(in(slope.data(), kCount)));
        here = there = (here - kRate + there) / 2;
        ASSERT_TRUE(holds(
            model.data(), kCount, [&](std::size_t i) { return first[i] + here; }, 1e-9));
      }
      is_done.count_down();
    } else {
      is_done.wait();
      expect_ok(strategy->step(in(slope.data(), kCount)));
      const double moved = (-100 * kRate / 2 - kRate + -100 * kRate / 2) / 2;
      EXPECT_TRUE(holds(
          model.data(), kCount, [&](std::size_t i) { return first[i] + moved; }, 1e-9));
    }
    expect_ok(strategy->end());
  });
}

// Rank 2 leaves the job. Its neighbors average with each other from then on.
TEST(Strategies, AdPsgdGoesOnWithoutARankThatLeft) {
  run_job(3, [](Context& context) {
    expect_ok(context.set_graph(*fully_connected_graph(3)));
    Array<double> model(kCount, false), slope(kCount, false);
    Result<Strategy> strategy = create(context, "ad_psgd", model);
    ASSERT_TRUE(strategy.ok()) << strategy.status().to_string();
    if (context.rank() == 2) return;
    // Each average with it is one that is not counted.
    std::uint64_t counted = 0, steps = 0;
    for (; steps < 100 || counted == steps; ++steps) {
      const std::uint64_t before = strategy->counts().bytes;
      const Status status = strategy->step(in(slope.data(), kCount));
      ASSERT_TRUE(status.ok()) << status.to_string();
      counted += strategy->counts().bytes > before ? 1 : 0;
    }
  });
}

// Averages in groups leave the mean of all models as it is.
TEST(Strategies, PragueMovesTheMeanAsAllGradientsDo) {
  constexpr int kSteps = 30;
  for (const char* name : {"prague", "prague:random"}) {
    SCOPED_TRACE(name);
    run_job(4, [&](Context& context) {
      Array<double> model(kCount, false);
      Result<Strategy> strategy = create(context, name, model);
      ASSERT_TRUE(strategy.ok()) << strategy.status().to_string();
      EXPECT_TRUE(strategy->runs_free());
      const Tensor slope(kCount, context.rank());
      for (int step = 0; step < kSteps; ++step) {
        expect_ok(strategy->begin());
        expect_ok(strategy->step(in(slope.data(), kCount)));
      }
      EXPECT_EQ(strategy->counts().steps, kSteps);
      EXPECT_GT(strategy->counts().bytes, 0);
      expect_ok(strategy->end());
      Tensor mean(kCount);
      expect_ok(context.allreduce(in(model.data(), kCount), out(mean.data(), kCount)));
      const Tensor first = first_model(kCount);
      const auto moved = [&](std::size_t i) { return first[i] - kSteps * kRate * 1.5; };
      EXPECT_TRUE(holds(mean.data(), kCount, moved, 1e-9));
    });
  }
}

// Rank 1 takes its first step when rank 0 has taken 30: with canary it is too late.
TEST(Strategies, CanaryGoesOnWithoutASlowRank) {
  for (const char* name : {"canary", "canary:asynchronous"}) {
    std::latch is_done(1);
    run_job(2, [&](Context& context) {
      SCOPED_TRACE(name);
      Array<double> model(kCount, false);
      Result<Strategy> strategy = create(context, name, model);
      ASSERT_TRUE(strategy.ok());
      EXPECT_TRUE(strategy->runs_free());
      const Tensor slope(kCount, 1.0), first = first_model(kCount);
      expect_ok(strategy->begin());
      expect_ok(context.barrier());
      const bool drops = std::string(name) == "canary" && context.rank() == 1;
      if (context.rank() == 0) {
        for (int step = 0; step < 30; ++step) expect_ok(strategy->step(in(slope.data(), kCount)));
        is_done.count_down();
      } else {
        is_done.wait();
        expect_ok(strategy->step(in(slope.data(), kCount)));
      }
      EXPECT_EQ(strategy->counts().dropped, drops ? 1U : 0U);
      // What comes together is divided by the number of ranks.
      const double moved = kRate * (context.rank() == 0 || drops ? 30 : (30 + 1) / 2.0);
      EXPECT_TRUE(holds(
          model.data(), kCount, [&](std::size_t i) { return first[i] - moved; }, 1e-9));
      expect_ok(strategy->end());
    });
  }
}

TEST(Strategies, TheRateMayChange) {
  run_job(2, [&](Context& context) {
    Array<double> model(kCount, false);
    Result<Strategy> strategy = create(context, "allreduce", model);
    ASSERT_TRUE(strategy.ok());
    expect_ok(strategy->set_rate(2.0));
    EXPECT_EQ(strategy->set_rate(-1.0).text(),
              "strategy \"allreduce\": the rate is -1; a number above 0 is needed");
    const Tensor slope(kCount, 1.0);
    const Tensor first = first_model(kCount);
    expect_ok(strategy->step(in(slope.data(), kCount)));
    EXPECT_TRUE(holds(
        model.data(), kCount, [&](std::size_t i) { return first[i] - 2; }, 1e-9));
    expect_ok(strategy->end());
  });
}

}  // namespace
}  // namespace weft
