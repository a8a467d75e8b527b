// Algorithms and strategies whose models are on GPUs: they give what they give on the host.
#include <weft/algorithms.h>
#include <weft/gradient_exchange.h>
#include <weft/strategies.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/context/outcomes.h"
#include "tests/cuda/fake_library.h"

namespace weft {
namespace {

class GpuAlgorithms : public testing::Test {
 protected:
  GpuAlgorithms() { fake.reset(); }
  ~GpuAlgorithms() override { fake.reset(); }
  const FakeDriver& fake = FakeDriver::get();
};

constexpr std::size_t kElements = 300;
using Values = std::vector<double>;

#define ASSERT_DONE(call)                       \
  do {                                          \
    const Status done = (call);                 \
    ASSERT_TRUE(done.ok()) << done.to_string(); \
  } while (false)

Values numbers(Rank rank, int first = 0) {
  Values values(kElements);
  for (std::size_t i = 0; i < kElements; ++i) {
    const std::size_t at = i * 5 + static_cast<std::size_t>(rank) * 3;
    values[i] = static_cast<double>(at % 17 + static_cast<std::size_t>(first));
  }
  return values;
}

// A tensor of this rank on this GPU, or on the host (-1).
struct Placed : GpuArray<double> {
  Placed(int device, const Values& values) : GpuArray(values.size(), device) { set(values); }
  [[nodiscard]] Output tensor() const { return out(data(), kElements); }
};

// The estimates of all steps. The model is on a GPU, or that of the estimates is, or both.
std::vector<Values> push_sum(Context& context, std::uint64_t lag, int model, int estimate) {
  Placed x(model, numbers(context.rank())), z(estimate, Values(kElements));
  std::vector<Values> seen;
  const auto run = [&]() -> Status {
    WEFT_ASSIGN(const Schedule schedule, one_peer_exponential(context.size()));
    WEFT_ASSIGN(PushSum push_sum, PushSum::create(context, schedule, x.tensor(), {.lag = lag}));
    for (int step = 0; step < 3; ++step) {
      WEFT_RETURN_IF_ERROR(push_sum.step());
      if (lag != 0) continue;  // what has arrived depends on who is faster
      WEFT_RETURN_IF_ERROR(push_sum.debias(z.tensor()));
      seen.push_back(z.get());
      Values changed = x.get();
      for (double& each : changed) each += 0.5;
      x.set(changed);
    }
    WEFT_RETURN_IF_ERROR(push_sum.settle());
    WEFT_RETURN_IF_ERROR(push_sum.debias(z.tensor()));
    if (lag == 0) seen.push_back(z.get());
    return push_sum.end();
  };
  const Status done = run();
  EXPECT_TRUE(done.ok()) << done.to_string();
  // Nothing is lost: the sum over the ranks is as it was.
  Placed sum(model, Values(kElements));
  const Status added = context.allreduce(in(x.data(), kElements), sum.tensor());
  EXPECT_TRUE(added.ok()) << added.to_string();
  if (lag != 0) seen.push_back(sum.get());
  return seen;
}

TEST_F(GpuAlgorithms, PushSumGivesWhatItGivesOnTheHost) {
  run_job(4, [](Context& context) {
    const int rank = context.rank();
    const std::vector<Values> host = push_sum(context, 0, -1, -1);
    ASSERT_EQ(host.size(), 4U);
    EXPECT_EQ(push_sum(context, 0, rank % 3 - 1, (rank + 1) % 3 - 1), host);
    EXPECT_EQ(push_sum(context, kAnyLag, rank % 2, rank % 2), push_sum(context, kAnyLag, -1, -1));
  });
}

TEST_F(GpuAlgorithms, AdPsgdAveragesWithOwnersThatDoNotTakePart) {
  run_job(2, [&](Context& context) {
    const Rank rank = context.rank();
    // Both on GPUs, and each of them alone.
    for (const std::pair<int, int>& devices : {std::pair{0, 1}, {0, -1}, {-1, 1}}) {
      Placed x(rank == 0 ? devices.first : devices.second, Values(kElements, rank == 0 ? 2 : 4));
      Placed y(devices.first, Values(kElements));
      Result<AdPsgd> ad_psgd = AdPsgd::create(context, x.tensor());
      ASSERT_TRUE(ad_psgd.ok()) << ad_psgd.status().to_string();
      const auto model = [&] {
        const Status read = ad_psgd->read(y.tensor());
        EXPECT_TRUE(read.ok()) << read.to_string();
        return y.get();
      };
      if (rank == 0) {
        ASSERT_DONE(ad_psgd->average_with(1));
        EXPECT_EQ(x.get(), Values(kElements, 3));
      }
      ASSERT_DONE(context.barrier());
      EXPECT_EQ(model(), Values(kElements, 3));
      ASSERT_DONE(context.barrier());
      if (rank == 1) {
        ASSERT_DONE(ad_psgd->update([&] {
          EXPECT_EQ(x.get(), Values(kElements, 3)) << "what others wrote";
          x.set(Values(kElements, 7));
        }));
        EXPECT_EQ(model(), Values(kElements, 7));
        ASSERT_EQ(ad_psgd->average().value(), 0);
        EXPECT_EQ(x.get(), Values(kElements, 5));
      }
      ASSERT_DONE(context.barrier());
      EXPECT_EQ(model(), Values(kElements, 5));
      ASSERT_DONE(context.barrier());
      ASSERT_DONE(ad_psgd->end());
    }
  });
}

TEST_F(GpuAlgorithms, ChangesAreBehindTheStream) {
  if (!fake.is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  run_job(1, [&](Context& context) {
    Placed x(0, Values(kElements, 1)), y(0, Values(kElements));
    void* const stream = fake.stream(0);
    Result<AdPsgd> ad_psgd = AdPsgd::create(context, x.tensor(), {.stream = Stream{stream}});
    ASSERT_TRUE(ad_psgd.ok()) << ad_psgd.status().to_string();
    const Values fives(kElements, 5);
    ASSERT_DONE(ad_psgd->update(
        [&] { fake.copy_in(0, x.data(), fives.data(), kElements * sizeof(double), stream); }));
    ASSERT_DONE(ad_psgd->read(y.tensor()));
    EXPECT_EQ(y.get(), fives);
    fake.capture(stream, 1);
    expect_names(ad_psgd->update([] {}), Code::invalid_argument, {"captured"});
    fake.capture(stream, 0);
    ASSERT_DONE(ad_psgd->update([] {}));
    ASSERT_DONE(ad_psgd->end());
  });
}

TEST_F(GpuAlgorithms, AStreamThatTakesTooLongIsAnError) {
  if (!fake.is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  Config config = test_config();
  config.deadline_ms = 100;
  run_job(
      1,
      [&](Context& context) {
        Placed x(1, Values(kElements, 1));
        void* const stream = fake.stream(1);
        Result<AdPsgd> ad_psgd = AdPsgd::create(context, x.tensor(), {.stream = Stream{stream}});
        ASSERT_TRUE(ad_psgd.ok()) << ad_psgd.status().to_string();
        fake.hold(stream);
        expect_names(ad_psgd->update([] {}), Code::timed_out, {"GPU 1", "100 ms"});
        fake.release(stream);
        ASSERT_DONE(ad_psgd->update([] {}));
        ASSERT_DONE(ad_psgd->end());
      },
      config);
}

TEST_F(GpuAlgorithms, GroupsAverageModelsOfGpus) {
  run_job(4, [](Context& context) {
    const Rank rank = context.rank();
    Placed x(rank % 3 - 1, Values(kElements, rank));
    Result<PartialAllreduce> partial =
        PartialAllreduce::create(context, x.tensor(), {.law = "static"});
    ASSERT_TRUE(partial.ok()) << partial.status().to_string();
    Values models = {0, 1, 2, 3};
    for (int step = 0; step < 4; ++step) {
      const Result<std::vector<Rank>> group = partial->average();
      ASSERT_TRUE(group.ok()) << group.status().to_string();
      double own = x.get().front();
      Values all(4);
      ASSERT_DONE(context.allgather(in(&own, 1), out(all.data(), 4)));
      double mean = 0;
      for (const Rank each : *group) mean += models[static_cast<std::size_t>(each)];
      if (group->size() > 1) mean /= static_cast<double>(group->size());
      EXPECT_EQ(own, group->size() > 1 ? mean : models[static_cast<std::size_t>(rank)]) << step;
      EXPECT_EQ(x.get(), Values(kElements, own));
      models = all;
    }
    ASSERT_DONE(partial->end());
  });
}

// The model after some steps; gradients are 0 where ranks go at their own speed.
Values trained(Context& context, const std::string& name, bool runs_free, int model, int gradient) {
  Placed x(model, numbers(context.rank(), 1));
  Placed slope(gradient, runs_free ? Values(kElements) : numbers(context.rank()));
  const auto run = [&]() -> Status {
    WEFT_ASSIGN(Strategy strategy, Strategy::create(context, name, x.tensor(), {.rate = 0.01}));
    EXPECT_EQ(strategy.runs_free(), runs_free) << name;
    for (int step = 0; step < 3; ++step) {
      if (step != 1) WEFT_RETURN_IF_ERROR(strategy.begin());
      WEFT_RETURN_IF_ERROR(strategy.step(in(slope.data(), kElements)));
    }
    return strategy.end();
  };
  const Status done = run();
  EXPECT_TRUE(done.ok()) << name << ": " << done.to_string();
  return x.get();
}

TEST_F(GpuAlgorithms, StrategiesGiveWhatTheyGiveOnTheHost) {
  run_job(2, [](Context& context) {
    const Rank rank = context.rank();
    for (const std::string& name : strategy_names()) {
      const bool runs_free = name == "ad_psgd" || name == "prague" || name == "prague:random" ||
                             name == "canary" || name == "canary:asynchronous";
      const Values host = trained(context, name, runs_free, -1, -1);
      const Values gpu = trained(context, name, runs_free, rank, rank);
      // What has come within a bound depends on who is faster.
      if (name != "canary:bounded") {
        EXPECT_EQ(gpu, host) << name;
        if (runs_free) {
          EXPECT_EQ(host, numbers(0, 1)) << name;
        }
      }
    }
    EXPECT_EQ(trained(context, "dpsgd", false, rank - 1, -1),
              trained(context, "dpsgd", false, -1, -rank));
  });
}

// Rank 2 has no partner in any step.
TEST_F(GpuAlgorithms, DPsgdKeepsTheModelWhereThereIsNoPartner) {
  run_job(3, [](Context& context) {
    const Schedule pair({"pair", 3, 1, 1}, [](std::uint64_t, Rank rank) {
      LocalView view;
      view.rank = rank;
      view.size = 3;
      if (rank == 2) return view;
      view.self_weight = 0.5;
      view.in.push_back({1 - rank, 0.5});
      view.out.push_back({1 - rank, 0.5});
      return view;
    });
    Result<DPsgd> dpsgd = DPsgd::create(context, pair);
    ASSERT_TRUE(dpsgd.ok()) << dpsgd.status().to_string();
    const std::vector<double> own = numbers(context.rank());
    std::vector<double> expected = own;
    if (context.rank() != 2) {
      const std::vector<double> other = numbers(1 - context.rank());
      for (std::size_t i = 0; i < kElements; ++i) expected[i] = (own[i] + other[i]) / 2;
    }
    for (const auto& [from, to] : {std::pair{0, 0}, {0, 1}, {-1, 1}, {1, -1}}) {
      GpuArray<double> x(kElements, from), y(kElements, to);
      x.set(own);
      ASSERT_DONE(dpsgd->step(in(x.data(), kElements), out(y.data(), kElements)));
      EXPECT_EQ(y.get(), expected) << from << " to " << to;
    }
  });
}

// The model and the last mean after some iterations, with a step in the exchange and one of the caller's.
std::pair<Values, Values> exchanged(Context& context, ExchangeTopology topology, int model,
                                    int gradient, int mean) {
  Placed x(model, numbers(0, 1)), slope(gradient, numbers(context.rank()));
  Placed means(mean, Values(kElements));
  const auto run = [&]() -> Status {
    const std::vector<std::size_t> colayers = {100, kElements - 100};
    WEFT_ASSIGN(
        GradientExchange exchange,
        GradientExchange::create(context, x.tensor(), colayers,
                                 {.rule = ExchangeRule::bulk, .rate = 0.5, .topology = topology}));
    for (int step = 0; step < 3; ++step) {
      WEFT_RETURN_IF_ERROR(exchange.begin());
      WEFT_RETURN_IF_ERROR(exchange.push(0, in(slope.data(), 100)));
      WEFT_RETURN_IF_ERROR(exchange.push(1, in(slope.data() + 100, kElements - 100)));
      WEFT_RETURN_IF_ERROR(exchange.end_iteration(means.tensor()).status());
      Values doubled = x.get();
      for (double& each : doubled) each *= 2;
      WEFT_RETURN_IF_ERROR(exchange.update([&] { x.set(doubled); }));
    }
    return exchange.end();
  };
  const Status done = run();
  EXPECT_TRUE(done.ok()) << done.to_string();
  return {x.get(), means.get()};
}

TEST_F(GpuAlgorithms, AnExchangeOfGradientsGivesWhatItGivesOnTheHost) {
  run_job(2, [](Context& context) {
    const Rank rank = context.rank();
    for (const auto topology : {ExchangeTopology::all_to_all, ExchangeTopology::mesh}) {
      const auto host = exchanged(context, topology, -1, -1, -1);
      EXPECT_EQ(exchanged(context, topology, rank, rank, rank), host);
      EXPECT_EQ(exchanged(context, topology, rank - 1, -1, 1), host);
      EXPECT_EQ(exchanged(context, topology, -1, -rank, -1), host);
    }
  });
}

// Rank 1 has pushed nothing, and is too late. The model that it pulls is that of a GPU, and goes to one.
TEST_F(GpuAlgorithms, ALateRankPullsTheModelOfAGpu) {
  run_job(2, [](Context& context) {
    Placed x(context.rank(), Values(kElements, 1)), slope(context.rank(), Values(kElements, 1));
    Placed mean(-1, Values(kElements));
    const std::vector<std::size_t> colayers = {kElements};
    Result<GradientExchange> exchange = GradientExchange::create(
        context, x.tensor(), colayers, {.staleness = 2, .proportion = 1, .rate = 0.5});
    ASSERT_TRUE(exchange.ok()) << exchange.status().to_string();
    ASSERT_DONE(exchange->begin());
    ASSERT_DONE(context.barrier());
    for (int step = 0; step < (context.rank() == 0 ? 4 : 0); ++step) {
      ASSERT_DONE(exchange->push(0, in(slope.data(), kElements)));
      ASSERT_DONE(exchange->end_iteration(mean.tensor()).status());
      ASSERT_DONE(exchange->begin());
    }
    ASSERT_DONE(context.barrier());
    if (context.rank() == 1) ASSERT_DONE(exchange->push(0, in(slope.data(), kElements)));
    const Result<EndedIteration> ended = exchange->end_iteration(mean.tensor());
    ASSERT_TRUE(ended.ok()) << ended.status().to_string();
    EXPECT_EQ(ended->is_dropped, context.rank() == 1);
    EXPECT_EQ(x.get(), Values(kElements, 1 - 0.5 * 4));
    ASSERT_DONE(context.barrier());
    ASSERT_DONE(exchange->end());
  });
}

}  // namespace
}  // namespace weft
