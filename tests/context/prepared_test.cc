// Operations that are prepared once and run many times, beside calls that are not.
#include <memory>
#include <utility>

#include "tests/context/job.h"

namespace weft {
namespace {

// Each slot of a lane remembers to what it is bound, so every case runs often enough for all.
constexpr int kTimes = 20;

void expect_ok(const Status& status) {
  EXPECT_TRUE(status.ok()) << status.to_string();
}

Prepared prepared_of(Context& context, const Request& request) {
  Result<Prepared> made = context.prepare(request);
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return made.ok() ? *made : Prepared();
}

Request sum_of(Array<double>& x, Array<double>& y) {
  return {.collective = Collective::allreduce,
          .input = in(x.data(), x.size()),
          .output = out(y.data(), y.size()),
          .op = ReduceOp::sum};
}

TEST(Prepared, RunsReadAndWriteTheMemoryAsItIsThen) {
  run_job(3, [](Context& context) {
    Array<double> x(4, false), y(4, false), large(100'000, true), sum(100'000, true);
    Prepared small = prepared_of(context, sum_of(x, y));
    Prepared big = prepared_of(context, sum_of(large, sum));
    for (int time = 0; time < kTimes; ++time) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = context.rank() + time;
      for (std::size_t i = 0; i < large.size(); ++i) large[i] = context.rank() - time;
      expect_ok(small.run());
      EXPECT_TRUE(holds(y.data(), y.size(), 3.0 + 3 * time));
      expect_ok(big.run());
      EXPECT_TRUE(holds(sum.data(), sum.size(), 3.0 - 3 * time));
    }
  });
}

// Odd ranks prepare, even ranks do not, and all also make other calls in between.
TEST(Prepared, RunsMeetCallsThatWereNotPrepared) {
  run_job(4, [](Context& context) {
    Array<double> x(8, false), y(8, false), z(8, false);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = context.rank();
    const Request request = sum_of(x, y);
    Prepared sum = prepared_of(context, request);
    for (int time = 0; time < 3 * kTimes; ++time) {
      y[0] = -1;
      expect_ok(context.rank() % 2 == 1 ? sum.run() : context.run(request));
      EXPECT_TRUE(holds(y.data(), y.size(), 6));
      if (time % 3 != 0) continue;
      expect_ok(context.allreduce(in(x.data(), 8), out(z.data(), 8), ReduceOp::max));
      EXPECT_TRUE(holds(z.data(), z.size(), 3));
    }
  });
}

// The caller's counts and weights are gone when the operations run.
TEST(Prepared, KeepsCountsAndWeights) {
  run_job(3, [](Context& context) {
    const auto rank = static_cast<std::size_t>(context.rank());
    Array<double> x(rank + 1, false), all(6, false), own(2, false), mean(2, false);
    Prepared gather, weighted;
    {
      std::vector<std::size_t> counts{1, 2, 3};
      gather = prepared_of(context, {.collective = Collective::allgather,
                                     .input = in(x.data(), x.size()),
                                     .output = out(all.data(), all.size()),
                                     .counts = counts});
      const Rank left = (context.rank() + 2) % 3, right = (context.rank() + 1) % 3;
      std::vector<NeighborWeight> sources{{left, 0.25}}, destinations{{right, 1.0}};
      NeighborWeights weights{.self = 0.75, .sources = sources, .destinations = destinations};
      weighted = prepared_of(context, {.collective = Collective::neighbor_allreduce,
                                       .input = in(own.data(), own.size()),
                                       .output = out(mean.data(), mean.size()),
                                       .weights = &weights});
      counts.assign(3, 7);
      sources[0].weight = destinations[0].weight = 100;
    }
    for (int time = 0; time < kTimes; ++time) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = context.rank() + time;
      own[0] = own[1] = context.rank() + time;
      expect_ok(gather.run());
      EXPECT_TRUE(holds(all.data(), all.size(), [&](std::size_t i) {
        return time + (i < 1 ? 0.0 : i < 3 ? 1.0 : 2.0);
      }));
      expect_ok(weighted.run());
      const double left = (context.rank() + 2) % 3 + time;
      EXPECT_TRUE(holds(mean.data(), mean.size(), 0.75 * own[0] + 0.25 * left, 1e-12));
    }
  });
}

// A call that differs in the values of its weights alone runs on the slots of the prepared one.
TEST(Prepared, KeepsItsWeightsBesideCallsWithOthers) {
  run_job(2, [](Context& context) {
    Array<double> x(2, false), y(2, false);
    x[0] = x[1] = context.rank() + 1;
    const Rank other = 1 - context.rank();
    const auto request = [&](const NeighborWeights& weights) {
      return Request{.collective = Collective::neighbor_allreduce,
                     .input = in(x.data(), 2),
                     .output = out(y.data(), 2),
                     .weights = &weights};
    };
    const auto weights_of = [&](double self, const NeighborWeight& from, const NeighborWeight& to) {
      return NeighborWeights{
          .self = self, .sources = std::span(&from, 1), .destinations = std::span(&to, 1)};
    };
    const NeighborWeight from{other, 1}, to{other, 1}, twice{other, 2};
    const NeighborWeights ones = weights_of(1, from, to), twos = weights_of(2, twice, to);
    Prepared sum = prepared_of(context, request(ones));
    for (int time = 0; time < 3 * kTimes; ++time) {
      expect_ok(sum.run());
      EXPECT_TRUE(holds(y.data(), 2, 3));
      for (int call = 0; call < time % 3; ++call) {
        expect_ok(context.run(request(twos)));
        EXPECT_TRUE(holds(y.data(), 2, 6));
      }
    }
  });
}

TEST(Prepared, ARunUsesTheGraphThatIsSet) {
  run_job(4, [](Context& context) {
    Array<double> x(2, false), y(2, false);
    x[0] = x[1] = context.rank();
    Prepared step = prepared_of(context, {.collective = Collective::neighbor_allreduce,
                                          .input = in(x.data(), 2),
                                          .output = out(y.data(), 2)});
    for (const bool is_ring : {true, false, true}) {
      expect_ok(context.set_graph(is_ring ? *ring_graph(4) : *fully_connected_graph(4)));
      const double left = (context.rank() + 3) % 4, right = (context.rank() + 1) % 4;
      const double want = is_ring ? (context.rank() + left + right) / 3 : 1.5;
      for (int time = 0; time < kTimes; ++time) {
        expect_ok(step.run());
        EXPECT_TRUE(holds(y.data(), 2, want, 1e-12));
      }
    }
  });
}

TEST(Prepared, StartsAndWaits) {
  run_job(3, [](Context& context) {
    Array<double> x(4, false), y(4, false);
    Prepared sum = prepared_of(context, sum_of(x, y));
    expect_ok(sum.wait());  // nothing was started
    for (int time = 0; time < kTimes; ++time) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = context.rank() * time;
      Result<Handle> started = sum.start();
      ASSERT_TRUE(started.ok()) << started.status().to_string();
      expect_ok(time % 2 == 0 ? sum.wait() : started->wait());
      EXPECT_TRUE(holds(y.data(), y.size(), 3.0 * time));
      expect_ok(sum.wait());  // again the same
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1;
      expect_ok(sum.run());
      EXPECT_TRUE(holds(y.data(), y.size(), 3));
    }
  });
}

// Rank 0 holds its run back until rank 1 has tried everything.
TEST(Prepared, OneRunIsUnderWayAtATime) {
  run_job(2, [](Context& context) {
    Array<double> x(4, false), y(4, false);
    float word = 0;
    Prepared sum = prepared_of(context, sum_of(x, y));
    if (context.rank() == 1) {
      expect_ok(sum.start().status());
      for (const Status& refused : {sum.run(), sum.start().status(), sum.run_for(0).status()}) {
        EXPECT_EQ(refused.code(), Code::invalid_argument);
        EXPECT_NE(refused.text().find("allreduce: the run that was started last is under way"),
                  std::string::npos)
            << refused.text();
      }
      expect_ok(context.send(in(&word, 1), 0));
      expect_ok(sum.wait());
    } else {
      expect_ok(context.recv(out(&word, 1), 1));
      expect_ok(sum.run());
    }
    expect_ok(sum.run());
  });
}

TEST(Prepared, RunsForAWhile) {
  run_job(2, [](Context& context) {
    Array<double> x(4, false), y(4, false);
    float word = 0;
    Prepared sum = prepared_of(context, sum_of(x, y));
    for (int time = 0; time < kTimes; ++time) {
      if (context.rank() == 1) {
        Result<std::optional<Handle>> rest = sum.run_for(0);
        ASSERT_TRUE(rest.ok() && rest->has_value());
        expect_ok(context.send(in(&word, 1), 0));
        expect_ok(sum.wait());
      } else {
        expect_ok(context.recv(out(&word, 1), 1));
        const Result<std::optional<Handle>> rest = sum.run_for(20'000'000'000);
        EXPECT_TRUE(rest.ok() && !rest->has_value());
      }
    }
  });
}

TEST(Prepared, TakesOperationsOfSomeRanks) {
  run_job(4, [](Context& context) {
    Array<double> x(4, false), y(4, false);
    const bool is_low = context.rank() < 2;
    const std::vector<Rank> group = is_low ? std::vector<Rank>{0, 1} : std::vector<Rank>{2, 3};
    Prepared mean = prepared_of(context, {.collective = Collective::group_average,
                                          .input = in(x.data(), 4),
                                          .output = out(y.data(), 4),
                                          .group = group});
    for (int time = 0; time < kTimes; ++time) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = context.rank() + time;
      expect_ok(mean.run());
      EXPECT_TRUE(holds(y.data(), 4, time + (is_low ? 0.5 : 2.5)));
    }
  });
}

TEST(Prepared, SaysWhatIsWrongWithTheArguments) {
  run_job(2, [](Context& context) {
    Array<double> x(4, false), y(4, false);
    Request request = sum_of(x, y);
    request.output.count = 3;
    const Status refused = context.prepare(request).status();
    EXPECT_EQ(refused.code(), Code::invalid_argument);
    EXPECT_EQ(refused.text(), context.run(request).text());
    for (const Status& nothing :
         {Prepared().run(), Prepared().wait(), Prepared().start().status()}) {
      EXPECT_EQ(nothing.code(), Code::invalid_argument);
      EXPECT_NE(nothing.text().find("nothing was prepared"), std::string::npos) << nothing.text();
    }
  });
}

TEST(Prepared, OutlivesItsContext) {
  std::vector<Prepared> sums(2);
  Array<double> x(4, false), y(4, false), z(4, false);
  run_job(2, [&](Context& context) {
    const auto rank = static_cast<std::size_t>(context.rank());
    sums[rank] = prepared_of(context, sum_of(x, rank == 0 ? y : z));
    expect_ok(sums[rank].run());
    expect_ok(context.barrier());
  });
  for (Prepared& each : sums) {
    EXPECT_EQ(each.run().code(), Code::closed);
    EXPECT_EQ(each.start().status().code(), Code::closed);
  }
}

TEST(Prepared, AllocatesNothing) {
  run_job(2, [](Context& context) {
    Array<double> x(4, false), y(4, false);
    Prepared sum = prepared_of(context, sum_of(x, y));
    for (int time = 0; time < kTimes; ++time) expect_ok(sum.run());
    const std::uint64_t before = context.usage().allocations;
    for (int time = 0; time < kTimes; ++time) expect_ok(sum.run());
    EXPECT_EQ(context.usage().allocations, before);
  });
}

}  // namespace
}  // namespace weft
