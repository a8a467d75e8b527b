// Gradient exchange: the means, by every rule; who waits for whom; whose model a late rank has.
#include <latch>

#include "tests/algorithms/exchange_worker.h"

namespace weft {
namespace {

class ExchangeTest : public OverBoth {};
INSTANTIATE_TEST_SUITE_P(Ways, ExchangeTest, kBothWays, name_of);

// A gradient of every rank and iteration that has another value in each element.
float gradient(Rank rank, int iteration, std::size_t i) {
  return 0.37F * static_cast<float>(rank) + 0.011F * static_cast<float>(iteration) +
         static_cast<float>(i % 13) / 7.0F;
}

TEST_P(ExchangeTest, BulkGivesTheMeanOfAll) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const auto topology : {ExchangeTopology::all_to_all, ExchangeTopology::mesh}) {
      run(ranks, [topology](Context& context) {
        Worker<float> worker(context, {.rule = ExchangeRule::bulk, .topology = topology});
        ASSERT_TRUE(worker.exchange);
        Array<float> want(kCount, false), first(kCount, false);
        for (int iteration = 0; iteration < 12; ++iteration) {
          expect_ok(worker->begin());
          for (std::size_t i = 0; i < kCount; ++i)
            worker.slope[i] = gradient(context.rank(), iteration, i);
          std::size_t at = 0;
          for (int each = 0; each < 3; ++each) {
            const std::size_t count = kColayers[static_cast<std::size_t>(each)];
            expect_ok(worker->push(each, in(worker.slope.data() + at, count)));
            at += count;
          }
          const EndedIteration ended = worker.end();
          EXPECT_EQ(ended.number, iteration);
          EXPECT_EQ(ended.contributors, std::vector<int>(3, context.size()));
          expect_ok(context.allreduce(in(worker.slope.data(), kCount), out(want.data(), kCount),
                                      ReduceOp::average));
          EXPECT_TRUE(holds(
              worker.mean.data(), kCount, [&](std::size_t i) { return want[i]; }, 1e-6));
          // The same bits on all ranks.
          std::copy_n(worker.mean.data(), kCount, first.data());
          expect_ok(context.broadcast({first.data(), kCount, DataType::f32},
                                      out(first.data(), kCount), 0));
          EXPECT_TRUE(holds(worker.mean.data(), kCount, [&](std::size_t i) { return first[i]; }));
        }
        expect_ok(worker->end());
      });
    }
  }
}

// All ranks have merged what all have told when all are past a barrier.
TEST_P(ExchangeTest, AllCopiesOfTheIndexAreEqualAfterAnExchange) {
  for (const ExchangeRule rule : {ExchangeRule::bulk, ExchangeRule::bounded,
                                  ExchangeRule::asynchronous, ExchangeRule::canary}) {
    run(4, [rule](Context& context) {
      Worker<double> worker(context, {.rule = rule, .staleness = 3});
      ASSERT_TRUE(worker.exchange);
      for (int iteration = 0; iteration < 10; ++iteration) {
        (void)worker.iterate(1.0);
        expect_ok(context.barrier());
        const Result<std::vector<std::uint64_t>> own = worker->index();
        ASSERT_TRUE(own.ok());
        std::vector<std::uint64_t> lowest(own->size()), highest(own->size());
        expect_ok(context.allreduce(in(own->data(), own->size()), out(lowest.data(), lowest.size()),
                                    ReduceOp::min));
        expect_ok(context.allreduce(in(own->data(), own->size()),
                                    out(highest.data(), highest.size()), ReduceOp::max));
        EXPECT_EQ(lowest, highest);
        expect_ok(context.barrier());
      }
      expect_ok(worker->end());
    });
  }
}

// No gradient is lost and none counts twice: with as many contributors each time, the sums of all means are
// what was pushed, whoever was ahead.
TEST_P(ExchangeTest, AsynchronousWaitsForNobodyAndLosesNothing) {
  constexpr int kAhead = 30;
  std::latch is_ahead(1);
  run(2, [&](Context& context) {
    Worker<double> worker(context, {.rule = ExchangeRule::asynchronous});
    ASSERT_TRUE(worker.exchange);
    expect_ok(context.barrier());
    if (context.rank() == 0) {
      for (int iteration = 0; iteration < kAhead; ++iteration) {
        EXPECT_EQ(worker.iterate(1.0).contributors, std::vector<int>(3, 1));
        EXPECT_TRUE(holds(worker.mean.data(), kCount, 1.0));
      }
      is_ahead.count_down();
      expect_ok(context.barrier());
      // Rank 1 contributes now, too.
      EXPECT_EQ(worker.iterate(1.0).contributors, std::vector<int>(3, 2));
      EXPECT_TRUE(holds(worker.mean.data(), kCount, (1.0 + 5.0) / 2));
    } else {
      is_ahead.wait();
      EXPECT_EQ(worker->staleness().value(), kAhead);
      EXPECT_EQ(worker.iterate(5.0).contributors, std::vector<int>(3, 2));
      EXPECT_TRUE(holds(worker.mean.data(), kCount, (kAhead * 1.0 + 5.0) / 2));
      expect_ok(context.barrier());
    }
    expect_ok(context.barrier());
    expect_ok(worker->end());
  });
}

TEST_P(ExchangeTest, TwoExchangesAreOnOneContext) {
  run(2, [](Context& context) {
    Worker<double> first(context, {.name = "first", .rule = ExchangeRule::bulk});
    Worker<float> second(context, {.name = "second"});
    ASSERT_TRUE(first.exchange && second.exchange);
    (void)second.iterate(1.0F);
    EXPECT_EQ(first.iterate(context.rank()).contributors, std::vector<int>(3, 2));
    EXPECT_TRUE(holds(first.mean.data(), kCount, 0.5));
    expect_ok(first->end());
    expect_ok(second->end());
  });
}

TEST_P(ExchangeTest, EmptyPiecesDoNotCount) {
  run(3, [](Context& context) {
    Worker<float> worker(context, {.rule = ExchangeRule::asynchronous});
    ASSERT_TRUE(worker.exchange);
    // Rank r pushes the first r colayers. What had not come before the end comes before the second.
    std::vector<int> contributors(3);
    for (const int last : {context.rank(), 0}) {
      expect_ok(worker->begin());
      worker.push(0, last, static_cast<float>(context.rank()));
      const EndedIteration ended = worker.end();
      for (std::size_t each = 0; each < 3; ++each) contributors[each] += ended.contributors[each];
      EXPECT_TRUE(holds(worker.mean.data() + 700, 40, ended.contributors[1] == 1 ? 2.0F : 0.0F));
      EXPECT_TRUE(holds(worker.mean.data() + 740, 300, 0.0F));
      expect_ok(context.barrier());
    }
    EXPECT_EQ(contributors, (std::vector{2, 1, 0}));
    expect_ok(worker->end());
  });
}

TEST_P(ExchangeTest, BoundedWaitsForTheSlowest) {
  std::latch has_waited(1);
  Config config = test_config();
  config.deadline_ms = 300;
  run_job(
      2,
      [&](Context& context) {
        Worker<float> worker(context, {.rule = ExchangeRule::bounded, .staleness = 2});
        ASSERT_TRUE(worker.exchange);
        expect_ok(worker->begin());
        if (context.rank() == 0) {
          for (int iteration = 0; iteration < 2; ++iteration) {
            worker.push(0, 3, 1.0F);
            (void)worker.end();
            expect_ok(worker->begin());
          }
          worker.push(0, 3, 1.0F);
          const Status status = worker->end_iteration(out(worker.mean.data(), kCount)).status();
          EXPECT_EQ(status.text(),
                    "gradient exchange \"gradient_exchange\": rank 1 has not begun iteration 1");
          EXPECT_EQ(status.rank(), 1);
          has_waited.count_down();
          // The call may be repeated.
          Status again = status;
          while (again.code() == Code::timed_out)
            again = worker->end_iteration(out(worker.mean.data(), kCount)).status();
          expect_ok(again);
        } else {
          has_waited.wait();
          worker.push(0, 3, 1.0F);
          (void)worker.end();
          expect_ok(worker->begin());
          (void)worker.end();
        }
      },
      config);
}

// Rank 1 stands still after it has pushed `pushed` of three colayers, until rank 0 is more than s ahead. It drops
// the rest if that were less than p = 2.
TEST_P(ExchangeTest, ALateRankDropsItsGradientsAndHasTheModelOfTheFastest) {
  constexpr int kStaleness = 4;
  for (const int pushed : {0, 1, 2}) {
    std::latch has_pushed(1), is_ahead(2), has_pulled(1);
    run(3, [&, pushed](Context& context) {
      Worker<double> worker(
          context,
          {.rule = ExchangeRule::canary, .staleness = kStaleness, .proportion = 2, .rate = 0.5});
      ASSERT_TRUE(worker.exchange);
      expect_ok(worker->begin());
      expect_ok(context.barrier());
      if (context.rank() == 1) {
        worker.push(0, pushed, 7.0);
        has_pushed.count_down();
        is_ahead.wait();
        worker.push(pushed, 3, 7.0);
        const EndedIteration ended = worker.end();
        EXPECT_EQ(ended.is_dropped, pushed < 2);
        EXPECT_EQ(ended.pulled_from, pushed < 2 ? 0 : kNoRank);
        const GradientExchangeCounts counts = worker->counts();
        EXPECT_EQ(counts.dropped, pushed < 2 ? 1U : 0U);
        EXPECT_EQ(counts.pulls, counts.dropped);
        const std::size_t sent = pushed == 0 ? 0 : pushed == 1 ? 700 : kCount;
        EXPECT_EQ(counts.bytes, (2 * sent + (pushed < 2 ? kCount : 0)) * sizeof(double));
        if (pushed < 2) {
          EXPECT_TRUE(holds(worker.mean.data(), kCount, 0.0));
          // Rank 0 has had these colayers from itself alone.
          EXPECT_TRUE(holds(worker.x.data() + 740, 300, -0.5 * (kStaleness + 1)));
        }
        expect_ok(worker->begin());
        EXPECT_EQ(worker->iteration(), pushed < 2 ? kStaleness + 1 : 1);
        EXPECT_EQ(worker->staleness().value(), pushed < 2 ? 0 : kStaleness);
        has_pulled.count_down();
      } else if (context.rank() == 0) {
        has_pushed.wait();
        for (int iteration = 0; iteration <= kStaleness; ++iteration) {
          worker.push(0, 3, 1.0);
          EXPECT_FALSE(worker.end().is_dropped);
          expect_ok(worker->begin());
        }
        is_ahead.count_down();
        has_pulled.wait();
      } else {
        is_ahead.count_down();
        has_pulled.wait();
      }
      expect_ok(context.barrier());
    });
  }
}

TEST_P(ExchangeTest, ModelsOfEveryTypeAreUpdatedByTheRate) {
  run(2, [](Context& context) {
    Worker<float> worker(context, {.name = "rated", .rule = ExchangeRule::bulk, .rate = 0.25});
    ASSERT_TRUE(worker.exchange);
    (void)worker.iterate(context.rank() == 0 ? 1.0F : 3.0F);
    EXPECT_TRUE(holds(worker.x.data(), kCount, static_cast<float>(context.rank()) - 0.5F));
    expect_ok(worker->update([&] { worker.x[0] = 9; }));
    EXPECT_EQ(worker.x[0], 9);
    expect_ok(worker->end());
    for (const DataType type : {DataType::f16, DataType::bf16}) {
      // 1.0 and its bytes; the mean of equal gradients is that gradient.
      Array<std::uint16_t> x(8, false), slope(8, false), mean(8, false);
      for (std::size_t i = 0; i < 8; ++i) slope[i] = type == DataType::f16 ? 0x3C00 : 0x3F80;
      const std::size_t colayers[] = {5, 3};
      Result<GradientExchange> exchange = GradientExchange::create(
          context, {x.data(), 8, type}, colayers, {.rule = ExchangeRule::bulk});
      ASSERT_TRUE(exchange.ok()) << exchange.status().to_string();
      expect_ok(exchange->begin());
      expect_ok(exchange->push(0, {slope.data(), 5, type}));
      expect_ok(exchange->push(1, {slope.data(), 3, type}));
      const Result<EndedIteration> ended = exchange->end_iteration({mean.data(), 8, type});
      ASSERT_TRUE(ended.ok());
      EXPECT_EQ(ended->contributors, (std::vector{2, 2}));
      EXPECT_TRUE(holds(mean.data(), 8, slope[0]));
      expect_ok(exchange->end());
    }
  });
}

std::string refused(Context& context, std::vector<std::size_t> colayers,
                    const GradientExchangeOptions& options, DataType type = DataType::f32) {
  Array<double> model(kCount, false);
  return std::string(GradientExchange::create(context, {model.data(), 10, type}, colayers, options)
                         .status()
                         .text());
}

TEST(ExchangeErrors, ArgumentsAreChecked) {
  run_job(2, [](Context& context) {
    const std::string title = "gradient exchange \"gradient_exchange\": ";
    EXPECT_EQ(refused(context, {4, 6}, {.staleness = -1}),
              title + "a staleness of -1; 0 to 1000000 is needed");
    EXPECT_EQ(refused(context, {4, 6}, {.staleness = 1'000'001}),
              title + "a staleness of 1000001; 0 to 1000000 is needed");
    EXPECT_EQ(refused(context, {4, 6}, {.proportion = -1}),
              title + "exchange index: a proportion of -1 of 2 colayers");
    EXPECT_EQ(refused(context, {4, 6}, {.compression = Compression::low_rank}),
              title + "compression (low_rank) takes matrices, and a colayer is none");
    EXPECT_EQ(refused(context, {4, 6}, {.compression = Compression::sketch}, DataType::f64),
              title + "a model of f64 cannot be compressed");
    EXPECT_EQ(refused(context, {4, 6}, {.proportion = 3}),
              title + "exchange index: a proportion of 3 of 2 colayers");
    EXPECT_EQ(
        refused(context, {4, 6}, {.rule = ExchangeRule::bounded, .staleness = 0}),
        title + "exchange index: a staleness of 0 lets nobody go on; that is the rule `bulk`");
    EXPECT_EQ(refused(context, {4, 5}, {}),
              title + "the colayers have 9 elements, and the model 10");
    EXPECT_EQ(refused(context, {10, 0}, {}), title + "a colayer is empty");
    constexpr std::size_t kHalf = std::size_t{1} << 63;  // two of them are 0 elements
    EXPECT_EQ(refused(context, {kHalf, kHalf, 10}, {}),
              title + "the colayers have more than the 10 elements of the model");
    EXPECT_EQ(refused(context, {10}, {.rate = 0}),
              title + "the rate is 0; a number above 0 is needed");
    EXPECT_EQ(refused(context, {10}, {}, DataType::i32),
              title + "a model of i32 cannot be averaged");
    const std::string wrong = title + "exchange index: a proportion of 3 of 2 colayers";
    EXPECT_EQ(refused(context, {4, 6}, {.proportion = context.rank() == 1 ? 3 : 1}),
              context.rank() == 1 ? wrong : "rank 1: " + wrong);
    expect_ok(context.barrier());
  });
}

TEST(ExchangeErrors, RanksThatDisagreeAllHaveTheError) {
  run_job(3, [](Context& context) {
    const bool is_last = context.rank() == 2;
    EXPECT_EQ(
        refused(context, {4, 6},
                {.rule = is_last ? ExchangeRule::bulk : ExchangeRule::asynchronous}),
        "gradient exchange \"gradient_exchange\": ranks 0 and 2 disagree: rule asynchronous, "
        "staleness 0, proportion 2, rate 0, topology all_to_all, compression none, 10 elements "
        "of f32 in colayers of 4 6 and rule bulk, staleness 0, proportion 2, rate 0, topology "
        "all_to_all, compression none, 10 elements of f32 in colayers of 4 6");
    EXPECT_EQ(refused(context, {4, 6}, {.name = is_last ? "b" : "a"}),
              std::string("gradient exchange \"") + (is_last ? "b" : "a") +
                  "\": ranks 0 and 2 disagree: \"a\" and \"b\"");
    const auto names = [](const std::string& text, std::string_view part) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    names(refused(context, {4, 6},
                  {.compression = is_last ? Compression::sketch : Compression::none}),
          "compression none, 10 elements of f32 in colayers of 4 6 and rule");
    names(refused(context, {4, 6},
                  {.topology = is_last ? ExchangeTopology::mesh : ExchangeTopology::all_to_all}),
          "topology all_to_all");
    expect_ok(context.barrier());
  });
}

// The list of colayers is longer than messages are.
TEST(ExchangeErrors, ColayersThatDifferLateInALongListAreADisagreement) {
  run_job(2, [](Context& context) {
    std::vector<std::size_t> colayers(200, 5);
    if (context.rank() == 1) std::swap(colayers[198] = 4, colayers[199] = 6);
    Array<float> model(1000, false);
    const Status status =
        GradientExchange::create(context, out(model.data(), 1000), colayers).status();
    EXPECT_EQ(status.code(), Code::mismatch);
    EXPECT_NE(status.text().find("1000 elements of f32"), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("what follows differs"), std::string::npos) << status.text();
    expect_ok(context.barrier());
  });
}

// One that cannot be made leaves nothing, and the other one goes on.
TEST(ExchangeErrors, TwoHaveDifferentNames) {
  run_job(2, [](Context& context) {
    Worker<float> first(context, {.name = "a", .rule = ExchangeRule::bulk});
    ASSERT_TRUE(first.exchange);
    const std::vector<std::string> before = context.window_names();
    EXPECT_EQ(refused(context, {4, 6}, {.name = "a"}),
              "win_create \"a.index\": rank 0: there is a window of that name");
    Owned taken(context, 10, 1.0, "c.1");
    EXPECT_EQ(refused(context, {4, 6}, {.name = "c"}),
              "win_create \"c.1\": rank 0: there is a window of that name");
    expect_ok(context.win_free("c.1"));
    EXPECT_EQ(context.window_names(), before);
    Worker<float> second(context, {.name = "b", .rule = ExchangeRule::bulk});
    ASSERT_TRUE(second.exchange);
    for (Worker<float>* each : {&first, &second}) {
      expect_ok((*each)->begin());
      for (int colayer = 0; colayer < 3; ++colayer) each->push(colayer, colayer + 1, 1.0F);
      EXPECT_EQ(each->end().contributors, (std::vector<int>{2, 2, 2}));
      expect_ok((*each)->end());
    }
  });
}

TEST(ExchangeErrors, CallsAreChecked) {
  run_job(1, [](Context& context) {
    const std::string title = "gradient exchange \"gradient_exchange\": ";
    Worker<float> worker(context, {.rule = ExchangeRule::bulk});
    ASSERT_TRUE(worker.exchange);
    float* slope = worker.slope.data();
    EXPECT_EQ(worker->push(0, in(slope, 700)).text(), title + "no iteration has begun");
    expect_ok(worker->begin());
    EXPECT_EQ(worker->begin().text(), title + "an iteration has begun and not ended");
    EXPECT_EQ(worker->push(3, in(slope, 1)).text(), title + "colayer 3 is not one of 0…2");
    EXPECT_EQ(
        worker->push(1, in(slope, 41)).text(),
        title + "the gradient of colayer 1 has 41 elements of f32, and the colayer 40 of f32");
    EXPECT_EQ(worker->push(1, {nullptr, 40, DataType::f32}).text(),
              title + "the gradient of colayer 1 has no memory");
    EXPECT_EQ(worker->update(nullptr).text(), title + "there is no change to be run");
    expect_ok(worker->push(1, in(slope, 40)));
    EXPECT_EQ(worker->push(1, in(slope, 40)).text(),
              title + "colayer 1 was pushed in this iteration");
    EXPECT_EQ(worker->end_iteration(out(worker.mean.data(), kCount)).status().text(),
              title + "colayer 0 was not pushed, and all ranks wait for it");
    EXPECT_EQ(worker->end().text(), title + "an iteration has begun and not ended");
    worker.push(0, 1, 1.0F);
    worker.push(2, 3, 1.0F);
    EXPECT_EQ(worker->end_iteration(out(worker.mean.data(), 3)).status().code(),
              Code::invalid_argument);
    EXPECT_EQ(worker->end_iteration({nullptr, kCount, DataType::f32}).status().text(),
              title + "the mean has no memory");
    (void)worker.end();
    expect_ok(worker->end());
    EXPECT_EQ(worker->begin().text(), title + "has ended");
  });
}

}  // namespace
}  // namespace weft
