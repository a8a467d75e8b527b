// What is refused, and that all ranks have the error.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/strategies/strategies.h"
#include "tests/window/window_job.h"

namespace weft {
namespace {

constexpr std::size_t kCount = 5;

std::string refused(Context& context, const char* name, const StrategyOptions& options,
                    DataType type = DataType::f32) {
  Array<double> model(kCount, false);
  const Status status =
      Strategy::create(context, name, {model.data(), kCount, type}, options).status();
  EXPECT_NE(status.code(), Code::ok);
  return std::string(status.text());
}

TEST(StrategyErrors, NamesOptionsAndTypesAreChecked) {
  run_job(2, [](Context& context) {
    std::string names;
    for (const std::string& name : strategy_names()) names += (names.empty() ? "" : ", ") + name;
    EXPECT_EQ(refused(context, "hogwild", {}), "there is no strategy \"hogwild\", only " + names);
    EXPECT_EQ(refused(context, "dpsgd", {.rate = 0}),
              "strategy \"dpsgd\": the rate is 0; a number above 0 is needed");
    EXPECT_EQ(refused(context, "dpsgd", {.rate = std::nan("")}),
              "strategy \"dpsgd\": the rate is nan; a number above 0 is needed");
    EXPECT_EQ(refused(context, "ad_psgd", {.momentum = 0.9}),
              "strategy \"ad_psgd\": it has no momentum");
    EXPECT_EQ(refused(context, "dpsgd", {.section = 4}), "strategy \"dpsgd\": it has no section");
    EXPECT_EQ(refused(context, "ring", {.peers = 1}), "strategy \"ring\": it has no peers");
    EXPECT_EQ(refused(context, "diloco", {.seed = 1}), "strategy \"diloco\": it has no seed");
    EXPECT_EQ(refused(context, "sgp", {.compression = Compression::f16}),
              "strategy \"sgp\": it has no compression");
    EXPECT_EQ(refused(context, "local_sgd", {.outer_rate = 1}),
              "strategy \"local_sgd\": it has no outer_rate");
    EXPECT_EQ(refused(context, "ring", {.momentum = 1.0}),
              "strategy \"ring\": momentum is 1; 0 to below 1 is needed");
    EXPECT_EQ(refused(context, "noloco", {.section = 0}),
              "strategy \"noloco\": section is 0; at least 1 is needed");
    EXPECT_EQ(refused(context, "sgp", {.peers = 3}),
              "strategy \"sgp\": peers is 3; 1 or 2 is needed");
    EXPECT_EQ(refused(context, "diloco", {.outer_momentum = -0.5}),
              "strategy \"diloco\": outer_momentum is -0.5; 0 to below 1 is needed");
    EXPECT_EQ(refused(context, "ring", {}, DataType::i32),
              "strategy \"ring\": a model of i32 cannot be averaged");
    EXPECT_EQ(refused(context, "allreduce", {.compression = Compression::f16}, DataType::f64),
              "strategy \"allreduce\": a model of f64 cannot be compressed");
    EXPECT_EQ(refused(context, "canary:bulk", {.staleness = 3}),
              "strategy \"canary:bulk\": it has no staleness");
    EXPECT_EQ(refused(context, "canary", {.colayers = 2, .proportion = 3}),
              "gradient exchange \"strategy\": exchange index: a proportion of 3 of 2 colayers");
    EXPECT_EQ(refused(context, "canary", {.staleness = 1'000'001}),
              "gradient exchange \"strategy\": a staleness of 1000001; 0 to 1000000 is needed");
    EXPECT_EQ(refused(context, "canary", {.proportion = -1}),
              "strategy \"canary\": proportion is -1; at least 0 is needed");
    EXPECT_EQ(refused(context, "canary", {.compression = Compression::sketch}, DataType::f64),
              "strategy \"canary\": a model of f64 cannot be compressed");
    EXPECT_EQ(refused(context, "ring", {.topology = ExchangeTopology::mesh}),
              "strategy \"ring\": it has no topology");
    // The context goes on.
    expect_ok(context.barrier());
  });
}

TEST(StrategyErrors, RanksThatDisagreeAllHaveTheError) {
  run_job(3, [](Context& context) {
    const bool is_last = context.rank() == 2;
    EXPECT_EQ(refused(context, is_last ? "ring" : "sgp", {}),
              std::string("strategy \"") + (is_last ? "ring" : "sgp") +
                  "\": ranks 0 and 2 disagree: \"sgp\" and \"ring\"");
    EXPECT_EQ(
        refused(context, "local_sgd", {.rate = is_last ? 0.2 : 0.1, .section = 4}),
        "strategy \"local_sgd\": ranks 0 and 2 disagree: rate 0.1, section 4, compression none, "
        "5 elements of f32 and rate 0.2, section 4, compression none, 5 elements of f32");
    const std::string wrong = "strategy \"dpsgd\": peers is 5; 1 or 2 is needed";
    EXPECT_EQ(refused(context, "dpsgd", {.peers = is_last ? 5 : 1}),
              is_last ? wrong : "rank 2: " + wrong);
    EXPECT_EQ(
        refused(context, "dpsgd", {}, is_last ? DataType::f64 : DataType::f32),
        "strategy \"dpsgd\": ranks 0 and 2 disagree: rate 0.1, compression none, 5 elements of f32 "
        "and rate 0.1, compression none, 5 elements of f64");
    EXPECT_EQ(
        refused(context, "canary",
                {.compression = is_last ? Compression::f16 : Compression::sketch}),
        "strategy \"canary\": ranks 0 and 2 disagree: rate 0.1, compression sketch, 5 elements "
        "of f32 and rate 0.1, compression f16, 5 elements of f32");
    EXPECT_EQ(
        refused(context, "canary:bulk",
                {.topology = is_last ? ExchangeTopology::mesh : ExchangeTopology::all_to_all}),
        "strategy \"canary:bulk\": ranks 0 and 2 disagree: rate 0.1, topology all_to_all, "
        "compression none, 5 elements of f32 and rate 0.1, topology mesh, compression none, 5 "
        "elements of f32");
    expect_ok(context.barrier());
  });
}

TEST(StrategyErrors, StepsAreChecked) {
  run_job(2, [](Context& context) {
    Array<float> model(kCount, false), slope(kCount, false);
    Result<Strategy> strategy = Strategy::create(context, "dpsgd:awc", out(model.data(), kCount));
    ASSERT_TRUE(strategy.ok());
    EXPECT_EQ(strategy->step(in(slope.data(), 4)).text(),
              "strategy \"dpsgd:awc\": the gradient has 4 elements of f32, and the model 5 of f32");
    EXPECT_EQ(strategy->step({nullptr, kCount, DataType::f32}).text(),
              "strategy \"dpsgd:awc\": the gradient has no memory");
    expect_ok(strategy->begin());
    EXPECT_EQ(strategy->begin().text(),
              "strategy \"dpsgd:awc\": an iteration has begun and not ended");
    EXPECT_EQ(strategy->end().code(), Code::invalid_argument);
    expect_ok(strategy->step(in(slope.data(), kCount)));
    expect_ok(strategy->end());
    EXPECT_EQ(strategy->begin().text(), "strategy \"dpsgd:awc\" has ended");
  });
}

// What travels beside the computation still arrives, in memory that is there.
TEST(StrategyErrors, AnIterationMayBeGivenUp) {
  run_job(3, [](Context& context) {
    constexpr std::size_t kLarge = 1 << 20;
    expect_ok(context.set_graph(*ring_graph(3)));
    Array<float> model(kLarge, false);
    {
      Result<Strategy> strategy = Strategy::create(context, "dpsgd:awc", out(model.data(), kLarge));
      ASSERT_TRUE(strategy.ok());
      expect_ok(strategy->begin());
    }
    Array<float> ones(kLarge, false), sum(kLarge, false);  // perhaps in the memory of the sum
    for (std::size_t i = 0; i < kLarge; ++i) ones[i] = 1.0F;
    expect_ok(context.allreduce(in(ones.data(), kLarge), out(sum.data(), kLarge), ReduceOp::sum));
    EXPECT_TRUE(holds(
        sum.data(), kLarge, [](std::size_t) { return 3.0; }, 0));
  });
}

// A gradient of one rank that is NaN in an element makes that element NaN, ends no rank and no strategy,
// and nobody waits. With it as with numbers, the others' elements stay finite.
TEST(StrategyErrors, NanOfOneRankStaysInItsElementAndAllGoOn) {
  run_job(3, [](Context& context) {
    constexpr std::size_t kNan = 2;  // the element
    std::vector<std::pair<std::string, StrategyOptions>> all;
    for (const std::string& name : strategy_names()) all.push_back({name, {}});
    for (const Compression each : {Compression::f16, Compression::bf16})
      all.push_back({"allreduce", {.compression = each}});
    for (const auto& [name, options] : all) {
      SCOPED_TRACE(name);
      Array<float> model(kCount, false), slope(kCount, false);
      Result<Strategy> strategy =
          Strategy::create(context, name, out(model.data(), kCount), options);
      ASSERT_TRUE(strategy.ok()) << strategy.status().to_string();
      if (context.rank() == 1) slope[kNan] = std::numeric_limits<float>::quiet_NaN();
      for (int step = 0; step < 6; ++step) expect_ok(strategy->step(in(slope.data(), kCount)));
      expect_ok(strategy->end());
      EXPECT_TRUE(context.rank() != 1 || std::isnan(model[kNan]));
      for (std::size_t i = 0; i < kCount; ++i) EXPECT_TRUE(i == kNan || model[i] == 0) << model[i];
    }
    expect_ok(context.barrier());
  });
}

// A gradient that is NaN everywhere makes a model NaN, also as a sketch, and ends no rank.
TEST(StrategyErrors, NanEverywhereEndsNoRank) {
  run_job(3, [](Context& context) {
    constexpr std::size_t kLarge = 1200;  // a share is large enough for a sketch
    std::vector<std::pair<std::string, StrategyOptions>> all;
    for (const std::string& name : strategy_names()) all.push_back({name, {}});
    for (const Compression each : {Compression::sketch, Compression::e4m3}) {
      for (const char* name : {"allreduce", "dpsgd", "diloco", "canary", "canary:bulk"})
        all.push_back({name, {.compression = each}});
      all.push_back({"canary:bulk", {.compression = each, .topology = ExchangeTopology::mesh}});
    }
    for (auto& [name, options] : all) {
      SCOPED_TRACE(name);
      options.colayers = name.starts_with("canary") ? std::optional(1) : std::nullopt;
      Array<float> model(kLarge, false), slope(kLarge, false);
      Result<Strategy> strategy =
          Strategy::create(context, name, out(model.data(), kLarge), options);
      ASSERT_TRUE(strategy.ok()) << strategy.status().to_string();
      if (context.rank() == 1)
        std::fill_n(slope.data(), kLarge, std::numeric_limits<float>::quiet_NaN());
      for (int step = 0; step < 12; ++step) expect_ok(strategy->step(in(slope.data(), kLarge)));
      expect_ok(strategy->end());
      const auto nans = std::count_if(model.data(), model.data() + kLarge,
                                      [](float each) { return std::isnan(each); });
      EXPECT_TRUE(context.rank() != 1 || nans == kLarge) << nans;
    }
    expect_ok(context.barrier());
  });
}

// The memory of a strategy that is destroyed is not given to others while ranks may still write there.
TEST(StrategyErrors, WhatOthersWriteToStaysWhenAStrategyIsDestroyed) {
  run_job(2, [](Context& context) {
    constexpr std::size_t kLarge = 100'000;
    Array<float> model(kLarge, false), ones(kLarge, false);
    for (std::size_t i = 0; i < kLarge; ++i) ones[i] = 1.0F;
    Result<Strategy> made = Strategy::create(context, "ad_psgd", out(model.data(), kLarge));
    ASSERT_TRUE(made.ok());
    std::optional<Strategy> strategy(*std::move(made));
    expect_ok(context.barrier());
    if (context.rank() == 1) strategy.reset();
    // Perhaps in the memory of the strategy.
    Array<float> first(kLarge, false), second(kLarge, false), third(kLarge, false);
    for (Array<float>* each : {&first, &second, &third})
      for (std::size_t i = 0; i < kLarge; ++i) (*each)[i] = 7.0F;
    expect_ok(context.barrier());
    for (int step = 0; step < 5 && strategy; ++step) {
      const std::uint64_t before = strategy->counts().bytes;
      expect_ok(strategy->step(in(ones.data(), kLarge)));
      EXPECT_GT(strategy->counts().bytes, before) << "no average";
    }
    expect_ok(context.barrier());
    for (Array<float>* each : {&first, &second, &third})
      EXPECT_TRUE(holds(each->data(), kLarge, 7.0));
  });
}

}  // namespace
}  // namespace weft
