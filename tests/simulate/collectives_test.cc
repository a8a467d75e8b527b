// Whole collectives: against formulas, against what plans say, and alike ranks against all of them.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/simulate/jobs.h"

namespace weft {
namespace {

constexpr double kNear = 1e-3;

Edges exponential(int ranks) {
  Edges edges;
  for (Rank from = 0; from < ranks; ++from)
    for (int hop = 1; hop < ranks; hop *= 2) edges.emplace_back(from, (from + hop) % ranks);
  return edges;
}

double carried(const Simulation& run, Link::Kind kind) {
  double bytes = 0;
  for (const Link& link : run.links) bytes += link.kind == kind ? link.bytes : 0;
  return bytes;
}

TEST(Collectives, ARingTakesItsFormula) {
  for (const int ranks : {2, 3, 8}) {
    Cluster cluster = cluster_of(ranks, 1, 1);
    cluster.rails[0].latency_us = 5;
    const auto n = static_cast<std::size_t>(ranks);
    const Result<Simulation> run =
        simulate_allreduce(cluster, AllreduceAlgorithm::ring, n * 64'000);
    ASSERT_TRUE(run.ok()) << run.status().to_string();
    // 2(n-1) phases of a block each, and the word that the last block was read.
    EXPECT_NEAR(run->total_us, 2 * (ranks - 1) * (64 + 5) + 5, kNear);
    EXPECT_EQ(run->phases.size(), 2 * n - 2);
  }
}

// Blocks of one cache line more or less count as the longer: what waits for what is a chain around
// the ring that always carries the same block.
TEST(Collectives, UnequalBlocksOfARingTakeAsLongAsTheLongest) {
  const Cluster cluster = cluster_of(6, 1, 1);
  SimulateOptions all;
  all.collapse = false;
  const std::size_t bytes = 64 * (6 * 500 + 1);
  const Result<Simulation> full = simulate_allreduce(cluster, AllreduceAlgorithm::ring, bytes, all);
  const Result<Simulation> one = simulate_allreduce(cluster, AllreduceAlgorithm::ring, bytes);
  ASSERT_TRUE(full.ok() && one.ok());
  EXPECT_EQ(one->alike, 1);
  EXPECT_NEAR(one->total_us, full->total_us, kNear);
}

// Half of a machine's interface is gone. Equal pieces then take twice as long; uneven ones spare that machine,
// and take what the plan's reason says.
TEST(Collectives, UnevenPiecesGainWhatThePlanPromises) {
  for (const int machines : {3, 4, 16}) {
    const auto n = static_cast<std::size_t>(machines);
    Cluster cluster = cluster_of(machines, 1, 1);
    cluster.rails[0].gbit_per_s.assign(n, 8);
    cluster.rails[0].gbit_per_s[1] = 4;
    Layout layout = layout_of(cluster);
    constexpr std::size_t kBytes = 48 << 20;
    const auto time_of = [&](AllreduceAlgorithm algorithm) {
      return simulate_plans(cluster, machines,
                            [&](Rank rank) {
                              return plan_allreduce(rank, machines, kBytes, {}, algorithm, layout);
                            },
                            {.input = kBytes, .output = kBytes})
          ->total_us;
    };
    const double even = time_of(AllreduceAlgorithm::ring);
    layout.left.assign(n, 1.0);
    layout.left[1] = 0.5;
    const double uneven = time_of(AllreduceAlgorithm::automatic);
    const std::string reason =
        plan_allreduce(0, machines, kBytes, {}, AllreduceAlgorithm::automatic, layout).plan.reason;
    const double promised = std::stod(reason.substr(reason.find("takes ") + 6));
    EXPECT_NEAR(uneven / even, promised, 0.05) << machines << " machines: " << reason;
  }
}

TEST(Collectives, LinksCarryWhatPlansSend) {
  Cluster cluster = cluster_of(8, 2, 2);
  cluster.rails[1].gbit_per_s.assign(8, 3);
  cluster.rails[0].levels = {{.machines = 4, .oversubscription = 3}};
  cluster.rails[1].levels = {{.machines = 4}};
  for (const AllreduceAlgorithm algorithm :
       {AllreduceAlgorithm::ring, AllreduceAlgorithm::split, AllreduceAlgorithm::direct,
        AllreduceAlgorithm::halving_doubling, AllreduceAlgorithm::bcube}) {
    SimulateOptions options;
    options.keep_bars = true;
    options.collapse = false;
    const Result<Simulation> run = simulate_allreduce(cluster, algorithm, 3'000'000, options);
    ASSERT_TRUE(run.ok()) << run.status().to_string();
    double sent = 0;
    for (const Bar& bar : run->bars) {
      const bool leaves = bar.kind == Bar::Kind::message && bar.rank / 2 != bar.peer / 2;
      sent += leaves ? static_cast<double>(bar.bytes) : 0;
    }
    EXPECT_GT(sent, 0);
    EXPECT_NEAR(carried(*run, Link::Kind::nic_out), sent, sent * 1e-9) << name(algorithm);
    EXPECT_NEAR(carried(*run, Link::Kind::nic_in), sent, sent * 1e-9);
    for (const Link& link : run->links) {
      EXPECT_LE(link.bytes, link.bytes_per_us * link.busy_us * (1 + 1e-9)) << name(link, cluster);
      EXPECT_LE(link.busy_us, run->total_us);
    }
    double all = 0;
    for (const Phase& phase : run->phases) all += static_cast<double>(phase.messages);
    EXPECT_EQ(all, static_cast<double>(run->messages));
  }
}

TEST(Collectives, TheCriticalPathExplainsAllTheTime) {
  Cluster cluster = cluster_of(4, 2, 1);
  cluster.rails[0].latency_us = 5;
  cluster.memory = {.gbyte_per_s = 4, .machine_gbyte_per_s = 5, .latency_us = 1};
  SimulateOptions options;
  options.message_us = 1;
  options.combine_gbyte_per_s = 3;
  options.stragglers = {{.rank = 5, .delay_us = 50, .slowdown = 2}};
  for (const AllreduceAlgorithm algorithm : {AllreduceAlgorithm::ring, AllreduceAlgorithm::split,
                                             AllreduceAlgorithm::halving_doubling}) {
    const Result<Simulation> run = simulate_allreduce(cluster, algorithm, 3'000'000, options);
    ASSERT_TRUE(run.ok());
    const double sum = std::accumulate(run->critical.begin(), run->critical.end(), 0.0,
                                       [](double us, const Cause& cause) { return us + cause.us; });
    EXPECT_NEAR(sum, run->total_us, run->total_us * 1e-6) << name(algorithm);
  }
}

// The same to the last digit but for rounding, with leaves and several ranks on a machine.
TEST(Collectives, OneOfAllGroupsThatAreAlikeIsEnough) {
  Cluster cluster = cluster_of(12, 2, 2);
  for (Rail& rail : cluster.rails) {
    rail.levels = {{.machines = 4, .oversubscription = 2, .latency_us = 2}};
    rail.latency_us = 3;
  }
  cluster.memory = {.gbyte_per_s = 4, .machine_gbyte_per_s = 6, .latency_us = 1};
  const std::size_t bytes = std::size_t{24} * 64 * 1000;
  SimulateOptions all;
  all.collapse = false;
  const auto expect_same = [](const Result<Simulation>& one, const Result<Simulation>& every) {
    ASSERT_TRUE(one.ok()) << one.status().to_string();
    ASSERT_TRUE(every.ok());
    EXPECT_EQ(one->alike, 8) << one->why;
    EXPECT_EQ(every->alike, 24);
    EXPECT_NEAR(one->total_us, every->total_us, kNear);
    EXPECT_EQ(one->messages, every->messages);
    for (std::size_t rank = 0; rank < 24; ++rank)
      EXPECT_NEAR(one->finish_us[rank % 8], every->finish_us[rank], kNear);
    for (std::size_t phase = 0; phase < every->phases.size(); ++phase)
      EXPECT_NEAR(one->phases[phase].end_us, every->phases[phase].end_us, kNear);
  };
  const auto expect_both_same = [&] {
    expect_same(simulate_allreduce(cluster, AllreduceAlgorithm::ring, bytes),
                simulate_allreduce(cluster, AllreduceAlgorithm::ring, bytes, all));
    expect_same(simulate_neighbors(cluster, exponential(24), bytes),
                simulate_neighbors(cluster, exponential(24), bytes, all));
  };
  expect_both_same();
  for (Rail& rail : cluster.rails) {
    rail.levels = {{.machines = 2, .oversubscription = 2, .latency_us = 2},
                   {.machines = 4, .oversubscription = 8, .latency_us = 1}};
  }
  expect_both_same();
  // A level of which one switch is used holds nothing up.
  cluster.rails[0].levels.push_back({.machines = 16, .oversubscription = 1000});
  expect_both_same();
}

TEST(Collectives, RanksThatAreNotAlikeAreAllSimulated) {
  const Cluster cluster = cluster_of(8, 1, 1);
  const auto alike = [&](AllreduceAlgorithm algorithm, const Cluster& on, SimulateOptions options) {
    return simulate_allreduce(on, algorithm, 64'000, std::move(options)).value().alike;
  };
  EXPECT_EQ(alike(AllreduceAlgorithm::ring, cluster, {}), 1);
  EXPECT_EQ(alike(AllreduceAlgorithm::halving_doubling, cluster, {}), 8);
  SimulateOptions late;
  late.stragglers = {{.rank = 2, .delay_us = 1}};
  EXPECT_EQ(alike(AllreduceAlgorithm::ring, cluster, late), 8);
  Cluster unequal = cluster;
  unequal.rails[0].gbit_per_s[5] = 4;
  EXPECT_EQ(alike(AllreduceAlgorithm::ring, unequal, {}), 8);
  Cluster leaves = cluster;
  // 3 + 3 + 2
  leaves.rails[0].levels = {{.machines = 3, .oversubscription = 2}};
  EXPECT_EQ(alike(AllreduceAlgorithm::ring, leaves, {}), 8);
  Cluster levels = cluster;
  levels.rails[0].levels = {{.machines = 2, .oversubscription = 2},
                            {.machines = 6, .oversubscription = 3}};  // 6 + 2
  EXPECT_EQ(alike(AllreduceAlgorithm::ring, levels, {}), 8);
  levels.rails[0].levels[1].machines = 4;
  EXPECT_EQ(alike(AllreduceAlgorithm::ring, levels, {}), 4);
  // Machines beyond those in use count for what their switches carry.
  levels.rails[0].levels[1].below_gbit_per_s = {32, 24};
  EXPECT_EQ(alike(AllreduceAlgorithm::ring, levels, {}), 8);
}

// Neighbors take as long among 512 as among 8; a ring's latencies grow with the ranks.
TEST(Collectives, NeighborsAreFlatWhereARingGrows) {
  const auto times = [](int ranks) {
    Cluster cluster = cluster_of(ranks, 1, 1);
    cluster.rails[0].latency_us = 10;
    Edges next;
    for (Rank rank = 0; rank < ranks; ++rank) next.emplace_back(rank, (rank + 1) % ranks);
    return std::pair{
        simulate_neighbors(cluster, next, 1 << 20).value().total_us,
        simulate_allreduce(cluster, AllreduceAlgorithm::ring, 1 << 20).value().total_us};
  };
  const auto [neighbor_8, ring_8] = times(8);
  const auto [neighbor_512, ring_512] = times(512);
  EXPECT_NEAR(neighbor_512, neighbor_8, kNear);
  EXPECT_GT(ring_512, 4 * ring_8);
}

// Each level's interfaces carry one of the four parts in every phase: 2 (M/4) (n-1)/n altogether.
TEST(Collectives, ABcubeOfTwelveHundredKeepsItsLevelsBusy) {
  constexpr int kBase = 6, kRanks = 1296;
  Cluster cluster = cluster_of(kRanks, 1, 4);
  int stride = 1;
  for (Rail& rail : cluster.rails) {
    rail.levels = {{.machines = kBase}};
    rail.stride = stride;
    rail.has_top = false;
    stride *= kBase;
  }
  constexpr std::size_t kBytes = std::size_t{64} * 4 * kRanks * 10;
  const Result<Simulation> run = simulate_allreduce(cluster, AllreduceAlgorithm::bcube, kBytes);
  ASSERT_TRUE(run.ok()) << run.status().to_string();
  EXPECT_EQ(run->messages, kRanks * 2U * 4 * 4 * (kBase - 1));
  EXPECT_NEAR(run->total_us, 2 * (kBytes / 4) * (1 - 1.0 / kRanks) / kRate, 0.1);
}

TEST(Collectives, ARingOfTenThousandIsOneRank) {
  Cluster cluster = cluster_of(10'000, 1, 1);
  cluster.rails[0].latency_us = 1;
  const Result<Simulation> run =
      simulate_allreduce(cluster, AllreduceAlgorithm::ring, std::size_t{640'000} * 100);
  ASSERT_TRUE(run.ok()) << run.status().to_string();
  EXPECT_EQ(run->messages, 10'000U * 19'998U);
  EXPECT_NEAR(run->total_us, 19'998 * (6.4 + 1), 1);
}

}  // namespace
}  // namespace weft
