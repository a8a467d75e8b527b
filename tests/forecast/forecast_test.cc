// Strategies in virtual time: what a slow rank costs, which links are busy, and what is refused.
#include "scheduler/forecast/forecast.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <weft/graph/generators.h>

#include <cmath>
#include <functional>

namespace weft::test {
namespace {

// The network costs nothing, and all ranks are equally fast.
TrainingJob job_of(const std::string& strategy, int ranks = 16, int per_machine = 4) {
  TrainingJob job;
  job.strategy = strategy;
  job.ranks = ranks;
  job.per_machine = per_machine;
  job.spread = 0;
  job.model_bytes = 0;
  job.network.latency_us = 0;
  return job;
}

TrainingForecast of(const TrainingJob& job) {
  const Result<TrainingForecast> found = forecast(job);
  EXPECT_TRUE(found.ok()) << found.status().text();
  return found.ok() ? *found : TrainingForecast{};
}

double kept(TrainingJob job, double straggler) {
  const double alone = of(job).steps_per_s;
  job.straggler = straggler;
  return of(job).steps_per_s / alone;
}

class Strategies : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Strategies, testing::ValuesIn(forecast_strategies()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, ':', '_');
                           return name;
                         });

// Random groups chain, so their members wait for each other all the same.
TEST_P(Strategies, NoRankWaitsWhereTheNetworkCostsNothing) {
  const double steps_per_s = of(job_of(GetParam())).steps_per_s;
  if (GetParam() == "prague:random") {
    EXPECT_LT(steps_per_s, 0.6 * 16 / 0.020);
  } else {
    EXPECT_NEAR(steps_per_s, 16 / 0.020, 1);
  }
}

// Groups of the generator that are drawn otherwise make a difference, too.
TEST_P(Strategies, ASlowerRankNeverHelps) {
  const bool has_generator = GetParam() == "prague" || GetParam() == "prague:random";
  TrainingJob job = job_of(GetParam());
  job.steps = 200;
  double before = 1;
  for (const double straggler : {0.0, 2.0, 5.0, 20.0}) {
    const double share = kept(job, straggler);
    EXPECT_LE(share, before + (has_generator ? 0.05 : 0.01)) << straggler;
    EXPECT_GT(share, 0);
    before = share;
  }
}

TEST_P(Strategies, EqualInputsGiveEqualResults) {
  TrainingJob job = job_of(GetParam());
  job.spread = 0.1;
  job.straggler = 2;
  job.model_bytes = 1e6;
  const TrainingForecast first = of(job), second = of(job);
  EXPECT_EQ(first.steps_per_s, second.steps_per_s);
  EXPECT_EQ(first.bytes_per_step, second.bytes_per_step);
  EXPECT_EQ(first.busiest_share, second.busiest_share);
}

TEST_P(Strategies, NoLinkCarriesMoreThanItCan) {
  TrainingJob job = job_of(GetParam());
  job.model_bytes = 100e6;
  const TrainingForecast found = of(job);
  EXPECT_GT(found.busiest_share, 0);
  EXPECT_LE(found.busiest_share, 1 + 1e-9);
  EXPECT_LE(found.median_share, found.busiest_share);
  EXPECT_GT(found.bytes_per_step, 0);
  EXPECT_LT(found.steps_per_s, 16 / 0.020);
}

// A rank that sleeps twice as long as it computes is three times as slow.
TEST(Forecast, WhoWaitsForAllKeepsTheShareOfTheSlowest) {
  for (const char* name :
       {"parameter_server", "sharded_server", "allreduce", "ring", "local_sgd"}) {
    EXPECT_NEAR(kept(job_of(name), 2), 1.0 / 3, 1e-6) << name;
    EXPECT_NEAR(kept(job_of(name), 5), 1.0 / 6, 1e-6) << name;
  }
}

TEST(Forecast, WhoWaitsForNobodyLosesTheSlowRankAlone) {
  TrainingJob job = job_of("ad_psgd");
  job.steps = 400;
  EXPECT_NEAR(kept(job, 2), (15 + 1.0 / 3) / 16, 0.002);
  EXPECT_NEAR(kept(job, 5), (15 + 1.0 / 6) / 16, 0.002);
}

// In a ring the slow rank's neighbors are held up at once, and the others soon.
TEST(Forecast, ARingWaitsForTheSlowestInTheEnd) {
  TrainingJob job = job_of("dpsgd");
  job.graph.emplace(ring_graph(16).value());
  job.steps = 400;
  EXPECT_NEAR(kept(job, 2), 1.0 / 3, 0.01);
  job.model_bytes = 1e6;
  EXPECT_NEAR(of(job).bytes_per_step, 2e6, 1);
}

TEST(Forecast, StaticGroupsWaitForTheSlowestToo) {
  TrainingJob job = job_of("prague:static");
  job.steps = 400;
  EXPECT_NEAR(kept(job, 2), 1.0 / 3, 0.02);
}

TEST(Forecast, SmartGroupsHardlyWaitForASlowWorker) {
  TrainingJob job = job_of("prague");
  job.spread = 0.05;
  job.steps = 200;
  EXPECT_GT(kept(job, 2), 0.85);
  EXPECT_GT(kept(job, 5), 0.85);
}

// With s = 18 a bounded rank is stopped after 18 iterations, and canary's slow one drops its gradients.
TEST(Forecast, CanarysRulesSayWhoWaits) {
  TrainingJob job = job_of("canary:bulk");
  job.steps = 400;
  EXPECT_NEAR(kept(job, 2), 1.0 / 3, 0.01);
  job.strategy = "canary:bounded";
  EXPECT_NEAR(kept(job, 2), 1.0 / 3, 0.01);
  for (const char* name : {"canary", "canary:asynchronous"}) {
    job.strategy = name;
    EXPECT_NEAR(kept(job, 2), (15 + 1.0 / 3) / 16, 0.01) << name;
    job.straggler = 2;
    EXPECT_EQ(of(job).dropped > 0, job.strategy == "canary");
    job.straggler = 0;
  }
  job.model_bytes = 1e6;
  EXPECT_NEAR(of(job).bytes_per_step, 15e6, 1e6);
}

// Shares of gradients go to their owners, and means to all: 2 M (n-1)/n. A slow rank costs what it costs without a mesh.
TEST(Forecast, CanarysMeshSendsAFewBytes) {
  for (const char* name : {"canary:bulk", "canary"}) {
    TrainingJob job = job_of(name, 16, 1);
    job.is_mesh = true;
    job.steps = 400;
    EXPECT_NEAR(kept(job, 2), job.strategy == "canary" ? (15 + 1.0 / 3) / 16 : 1.0 / 3, 0.01);
    job.model_bytes = 1e6;
    EXPECT_NEAR(of(job).bytes_per_step, 2e6 * 15 / 16, 2e4) << name;
    job.compressed_bytes = 0.25e6;
    EXPECT_NEAR(of(job).bytes_per_step, 0.5e6 * 15 / 16, 1e4) << name;
  }
}

// Canary, Fig. 7: the interface of the server is busy all the time, those of the workers hardly are.
TEST(Forecast, TheServersInterfaceIsTheBusiest) {
  TrainingJob job = job_of("parameter_server", 64, 1);
  job.model_bytes = 100e6;
  const TrainingForecast found = of(job);
  EXPECT_EQ(found.busiest, "node0");
  EXPECT_GT(found.busiest_share, 0.9);
  EXPECT_LT(found.median_share, 0.05);
  job.strategy = "allreduce";
  const TrainingForecast all = of(job);
  EXPECT_NEAR(all.busiest_share, all.median_share, 1e-9);
}

// 2 M (n-1)/n over an interface of 8 Gbit/s, after the computation.
TEST(Forecast, AnAllreduceTakesWhatItsInterfacesNeed) {
  TrainingJob job = job_of("allreduce", 4, 1);
  job.model_bytes = 8e6;
  job.network.gbit_per_s = 8;
  EXPECT_NEAR(of(job).steps_per_s, 4 / (0.020 + 0.012), 1e-3);
  EXPECT_NEAR(of(job).bytes_per_step, 12e6, 1);
  EXPECT_NEAR(of(job).busiest_share, 12.0 / 32, 1e-6);
  job.network.latency_us = 1000;  // up and down a tree of two levels
  EXPECT_NEAR(of(job).steps_per_s, 4 / (0.020 + 0.012 + 0.004), 1e-3);
}

TEST(Forecast, WhatTravelsBesideTheComputationCostsNothingIfItIsShort) {
  TrainingJob job = job_of("sgp", 16, 1);
  job.model_bytes = 8e6;
  job.network.gbit_per_s = 8;
  EXPECT_NEAR(of(job).steps_per_s, 16 / 0.020, 1e-3);
  job.network.gbit_per_s = 1;
  EXPECT_NEAR(of(job).steps_per_s, 16 / 0.064, 1e-3);
}

TEST(Forecast, LocalStepsExchangeOnceInASection) {
  TrainingJob job = job_of("diloco");
  job.model_bytes = 1e6;
  TrainingJob all = job_of("allreduce");
  all.model_bytes = 1e6;
  EXPECT_NEAR(of(all).bytes_per_step / of(job).bytes_per_step, 10, 1e-6);
  job.section = 7;
  EXPECT_NEAR(of(all).bytes_per_step / of(job).bytes_per_step, 7, 1e-6);
}

TEST(Forecast, WhatHasNoMeaningIsRefusedByItsName) {
  const auto text_of = [](const std::function<void(TrainingJob&)>& change) {
    TrainingJob job = job_of("allreduce");
    change(job);
    const Result<TrainingForecast> found = forecast(job);
    return found.ok() ? std::string("accepted") : std::string(found.status().text());
  };
  const auto names = [&](const char* what, const std::function<void(TrainingJob&)>& change) {
    EXPECT_NE(text_of(change).find(what), std::string::npos) << what << ": " << text_of(change);
  };
  names("no strategy \"hogwild\"", [](TrainingJob& job) { job.strategy = "hogwild"; });
  names("ranks is 0", [](TrainingJob& job) { job.ranks = 0; });
  names("whole number of machines", [](TrainingJob& job) { job.per_machine = 3; });
  names("per_machine is 17", [](TrainingJob& job) { job.per_machine = 17; });
  names("spread is 1", [](TrainingJob& job) { job.spread = 1; });
  names("straggler is -1", [](TrainingJob& job) { job.straggler = -1; });
  names("compute_us is nan", [](TrainingJob& job) { job.compute_us = std::nan(""); });
  names("gbit_per_s is 0", [](TrainingJob& job) { job.network.gbit_per_s = 0; });
  names("has no section", [](TrainingJob& job) { job.section = 3; });
  names("has no peers", [](TrainingJob& job) { job.peers = 1; });
  names("peers is 3", [](TrainingJob& job) {
    job.strategy = "sgp";
    job.peers = 3;
  });
  names("group_size is 1", [](TrainingJob& job) {
    job.strategy = "prague";
    job.group_size = 1;
  });
  names("graph of 8 ranks", [](TrainingJob& job) { job.graph.emplace(ring_graph(8).value()); });
}

}  // namespace
}  // namespace weft::test
