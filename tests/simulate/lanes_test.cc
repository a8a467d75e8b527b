// Ranks with several lanes. Interfaces carry 1000 bytes a microsecond.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/simulate/jobs.h"

namespace weft {
namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr double kNear = 1e-2;

SimulateOptions with(int lanes, double combine_gbyte_per_s = 0) {
  SimulateOptions options;
  options.lanes = lanes;
  options.combine_gbyte_per_s = combine_gbyte_per_s;
  options.piece_bytes = 64;  // little is left to combine after the last byte
  return options;
}

const Edges kPair{{0, 1}, {1, 0}};

// Two terms at 1000 bytes/us are twice what the interface needs; two lanes keep up with it.
TEST(Lanes, ShareTheSumsOfARank) {
  const Cluster cluster = cluster_of(2, 1, 1);
  const std::size_t bytes = 8 * kMiB;
  const auto us = [&](int lanes) {
    const Result<Simulation> run = simulate_neighbors(cluster, kPair, bytes, with(lanes, 1));
    EXPECT_TRUE(run.ok()) << run.status().to_string();
    EXPECT_EQ(run->lanes, lanes);
    return run->total_us;
  };
  EXPECT_NEAR(us(1), 2 * bytes / kRate, 1);
  EXPECT_NEAR(us(2), bytes / kRate, 1);
  EXPECT_NEAR(us(8), bytes / kRate, 1) << "the interface is what counts";
}

TEST(Lanes, PreferARailEach) {
  const Cluster cluster = cluster_of(2, 1, 4);
  const auto carried = [&](int lanes, int rail) {
    const Simulation run = simulate_neighbors(cluster, kPair, 8 * kMiB, with(lanes)).value();
    return link_named(run, cluster, "rail nic" + std::to_string(rail) + ": machine 0 sends").bytes;
  };
  for (int rail = 0; rail < 4; ++rail) {
    EXPECT_NEAR(carried(1, rail), 2 * kMiB, 1) << "one lane takes all";
    EXPECT_NEAR(carried(2, rail), 2 * kMiB, 1) << "fewer lanes than rails take all";
    EXPECT_NEAR(carried(4, rail), 2 * kMiB, 1);
    EXPECT_NEAR(carried(8, rail), 2 * kMiB, 1);
  }
}

// A rail that another one carries much more than is left to itself.
TEST(Lanes, DoNotKeepToASlowRail) {
  Cluster cluster = cluster_of(2, 1, 2);
  cluster.rails[1].gbit_per_s = {0.8, 0.8};
  const Simulation run = simulate_neighbors(cluster, kPair, 8 * kMiB, with(2)).value();
  EXPECT_LT(run.total_us, 8 * kMiB / kRate + 1);
}

TEST(Lanes, SmallOperationsAndThoseThatAreNotCutHaveOne) {
  const Cluster cluster = cluster_of(4, 1, 2);
  const auto lanes_of = [&](const std::function<Planned(Rank)>& plan, std::size_t bytes) {
    const OperandBytes operands{bytes, bytes, bytes};
    const Simulation one = simulate_plans(cluster, 4, plan, operands, with(1, 1)).value();
    const Simulation many = simulate_plans(cluster, 4, plan, operands, with(4, 1)).value();
    EXPECT_TRUE(many.lanes > 1 || many.total_us == one.total_us);
    return many.lanes;
  };
  const auto scatter = [](Rank rank) { return plan_scatter(rank, 4, 0, {}); };
  const auto broadcast = [](Rank rank) { return plan_broadcast(rank, 4, 0, 4 * kMiB, {}); };
  EXPECT_EQ(lanes_of(broadcast, 4 * kMiB), 4);
  EXPECT_EQ(lanes_of(broadcast, 4 * kMiB - 4), 3);
  EXPECT_EQ(lanes_of(broadcast, 2 * kMiB - 4), 1);
  EXPECT_EQ(lanes_of(scatter, 64 * kMiB), 1);
}

// The machine's memory bounds all lanes together, and never makes one lane slower than it was.
TEST(Lanes, ShareTheMemoryOfTheirMachine) {
  Cluster cluster = cluster_of(2, 1, 1);
  cluster.rails[0].gbit_per_s = {8e6, 8e6};
  const std::size_t bytes = 64 * kMiB;
  const auto us = [&](int lanes) {
    return simulate_neighbors(cluster, kPair, bytes, with(lanes, 1)).value().total_us;
  };
  cluster.memory.machine_gbyte_per_s = 4;
  EXPECT_NEAR(us(1), 2 * bytes / 1e3, 100);
  EXPECT_NEAR(us(4), 2 * bytes / 4e3, 100);
  EXPECT_NEAR(us(8), 2 * bytes / 4e3, 100);
  cluster.memory.machine_gbyte_per_s = 0.5;
  EXPECT_NEAR(us(1), 2 * bytes / 1e3, 100);
  EXPECT_NEAR(us(4), us(1), 100);
}

TEST(Lanes, ReadTheMemoryOfARankTogether) {
  Cluster cluster = cluster_of(1, 2, 0);
  cluster.memory = {.gbyte_per_s = 1, .machine_gbyte_per_s = 7, .latency_us = 5};
  const std::size_t bytes = 64 * kMiB;
  const auto run = [&](int lanes) {
    return simulate_neighbors(cluster, kPair, bytes, with(lanes)).value();
  };
  EXPECT_NEAR(run(1).total_us, bytes / 1e3 + 5, 50);
  EXPECT_NEAR(run(2).total_us, bytes / 2e3 + 5, 50);
  const Simulation bound = run(4);  // two ranks share 7 GB/s
  EXPECT_NEAR(bound.total_us, bytes / 3.5e3 + 5, 50);
  EXPECT_NEAR(link_named(bound, cluster, "rank 1, lane 3 reads").bytes, bytes / 4, 64);
}

// Results are those of ranks: as many as there are, and all their bytes.
TEST(Lanes, AreJoinedToTheirRanks) {
  Cluster cluster = cluster_of(8, 2, 2);
  for (Rail& rail : cluster.rails) rail.latency_us = 3;
  cluster.memory = {.gbyte_per_s = 4, .machine_gbyte_per_s = 0, .latency_us = 1};
  SimulateOptions options = with(4, 3);
  options.keep_bars = true;
  options.piece_bytes = std::size_t{512} << 10;
  const auto of_all = [&](bool collapse) {
    options.collapse = collapse;
    return simulate_allreduce(cluster, AllreduceAlgorithm::ring, 16 * kMiB, options).value();
  };
  const Simulation every = of_all(false);
  EXPECT_EQ(every.finish_us.size(), 16U);
  EXPECT_EQ(every.machine, (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7}));
  EXPECT_EQ(every.messages, 4U * 16 * 30);
  EXPECT_EQ(every.alike, 16);
  EXPECT_TRUE(std::ranges::all_of(every.bars, [](const Bar& bar) { return bar.rank < 16; }));
  const Simulation one = of_all(true);
  EXPECT_EQ(one.alike, 2) << one.why;
  EXPECT_EQ(one.why, "every 2 ranks are alike");
  EXPECT_EQ(one.messages, every.messages);
  EXPECT_NEAR(one.total_us, every.total_us, kNear);
}

TEST(Lanes, OfAStragglerAreAllLate) {
  const Cluster cluster = cluster_of(2, 1, 1);
  SimulateOptions options = with(2);
  options.stragglers = {{.rank = 0, .delay_us = 500}};
  const Simulation run = simulate_neighbors(cluster, {{0, 1}}, 4 * kMiB, options).value();
  EXPECT_NEAR(run.finish_us[1], 500 + 4 * kMiB / kRate, 1);
  EXPECT_NE(explain(run, cluster).find("rank 0 is late"), std::string::npos);
}

TEST(Lanes, HaveBounds) {
  const Cluster cluster = cluster_of(2, 1, 1);
  for (const int lanes : {0, -1, kMostLanes + 1})
    EXPECT_EQ(simulate_neighbors(cluster, kPair, kMiB, with(lanes)).status().code(),
              Code::invalid_argument);
  EXPECT_TRUE(simulate_neighbors(cluster, kPair, 64 * kMiB, with(kMostLanes)).ok());
}

// What one core sums, where nobody says anything else.
TEST(Lanes, CombineAsTheClusterSays) {
  Cluster cluster = cluster_of(2, 1, 1);
  cluster.rails[0].gbit_per_s = {8e6, 8e6};
  cluster.memory = {};
  const auto us = [&] {
    const Placement placement = Placement::identity(2);
    const RailUse rails = choose_rails(cluster, placement).value();
    const auto plan = [](Rank rank) {
      const View view{rank, 2, {1 - rank}, {1 - rank}};
      return Planned{view, plan_neighbor_allreduce(view, {})};
    };
    const OperandBytes bytes{64 * kMiB, 64 * kMiB, 0};
    return simulate({cluster, placement, rails, 2, plan, bytes}, with(1)).value().total_us;
  };
  EXPECT_NEAR(us(), 2 * 64 * kMiB / 10e3, 50);
  cluster.memory.combine_gbyte_per_s = 20;
  EXPECT_NEAR(us(), 2 * 64 * kMiB / 20e3, 50);
}

}  // namespace
}  // namespace weft
