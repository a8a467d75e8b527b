// Times on clusters so small that they are worked out by hand. Interfaces carry 1000 bytes a
// microsecond.
#include <gtest/gtest.h>

#include "tests/simulate/jobs.h"

namespace weft {
namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kSize = 1'000'000;  // 1000 us on one interface
constexpr double kNear = 1e-3;

TEST(Times, OneMessageIsSizeOverRateAndItsLatency) {
  Cluster cluster = cluster_of(2, 1, 1);
  cluster.rails[0].latency_us = 7;
  const Result<Simulation> run = simulate_neighbors(cluster, {{0, 1}}, kSize);
  ASSERT_TRUE(run.ok()) << run.status().to_string();
  EXPECT_NEAR(run->finish_us[1], 1007, kNear);
  // The sender has to hear that its memory was read.
  EXPECT_NEAR(run->finish_us[0], 1014, kNear);
  EXPECT_EQ(run->messages, 1U);
  ASSERT_EQ(run->phases.size(), 1U);
  EXPECT_NEAR(run->phases[0].end_us, 1007, kNear);
}

TEST(Times, SmallMessagesAreCopiedAndNobodyWaitsForTheirReader) {
  Cluster cluster = cluster_of(2, 1, 1);
  cluster.rails[0].latency_us = 7;
  const Result<Simulation> run = simulate_neighbors(cluster, {{0, 1}}, 4000);
  ASSERT_TRUE(run.ok());
  EXPECT_NEAR(run->finish_us[1], 11, kNear);
  EXPECT_NEAR(run->finish_us[0], 4, kNear);
}

TEST(Times, TwoMessagesShareTheInterfaceThatBothNeed) {
  const Cluster cluster = cluster_of(3, 1, 1);
  const Result<Simulation> out = simulate_neighbors(cluster, {{0, 1}, {0, 2}}, kSize);
  ASSERT_TRUE(out.ok());
  EXPECT_NEAR(out->total_us, 2000, kNear);
  const Link link = link_named(*out, cluster, "rail nic0: machine 0 sends");
  EXPECT_NEAR(link.bytes, 2 * kSize, 1);
  EXPECT_NEAR(link.busy_us, 2000, kNear);
  // Both directions at once do not hold each other up.
  const Result<Simulation> both = simulate_neighbors(cluster, {{0, 1}, {1, 0}}, kSize);
  ASSERT_TRUE(both.ok());
  EXPECT_NEAR(both->total_us, 1000, kNear);
}

// Rank 3 gets three messages at a third of its rate each. Rank 0 also sends to 4, and has two
// thirds left for that: 1500 us, not the 2000 us of an equal share.
TEST(Times, WhatOneCannotUseOthersGet) {
  const Cluster cluster = cluster_of(5, 1, 1);
  const Result<Simulation> run =
      simulate_neighbors(cluster, {{0, 3}, {1, 3}, {2, 3}, {0, 4}}, kSize);
  ASSERT_TRUE(run.ok());
  EXPECT_NEAR(run->finish_us[4], 1500, kNear);
  EXPECT_NEAR(run->finish_us[3], 3000, kNear);
}

TEST(Times, AnOversubscribedLeafHoldsUpWhatPassesIt) {
  Cluster cluster = cluster_of(4, 1, 1);
  // 2000 bytes/us below, 500 up
  cluster.rails[0].levels = {{.machines = 2, .oversubscription = 4, .latency_us = 3}};
  const Result<Simulation> across = simulate_neighbors(cluster, {{0, 2}, {1, 3}}, kSize);
  ASSERT_TRUE(across.ok());
  EXPECT_NEAR(across->finish_us[2], 4003, kNear);
  const Link up = link_named(*across, cluster, "rail nic0: leaf 0 up");
  EXPECT_NEAR(up.bytes, 2 * kSize, 1);
  EXPECT_TRUE(explain(*across, cluster).starts_with("rail nic0 up from leaves 100%"))
      << explain(*across, cluster);
  const Result<Simulation> within = simulate_neighbors(cluster, {{0, 1}, {2, 3}}, kSize);
  ASSERT_TRUE(within.ok());
  EXPECT_NEAR(within->total_us, 1000, kNear);
}

// Four machines send to the other four below one switch, eight to the other eight.
TEST(Times, TheTightestLevelOnTheWayHoldsUp) {
  Cluster cluster = cluster_of(16, 1, 1);
  cluster.rails[0].latency_us = 7;
  cluster.rails[0].levels = {{.machines = 2, .oversubscription = 2, .latency_us = 3},
                             {.machines = 4, .gbit_per_s = 4, .latency_us = 5},
                             {.machines = 8, .oversubscription = 32, .latency_us = 11}};
  const auto run = [&](Rank distance, Rank senders) {
    Edges edges;
    for (Rank rank = 0; rank < senders; ++rank) edges.emplace_back(rank, rank + distance);
    return simulate_neighbors(cluster, edges, kSize).value();
  };
  EXPECT_NEAR(run(1, 1).finish_us[1], 1000 + 7, kNear);
  EXPECT_NEAR(run(2, 2).finish_us[2], 2 * 1000 + 7 + 3, kNear);      // 1000 bytes/us from a leaf
  EXPECT_NEAR(run(4, 4).finish_us[4], 4 * 2000 + 7 + 3 + 5, kNear);  // 500
  const Simulation all = run(8, 8);
  EXPECT_NEAR(all.finish_us[8], 8 * 4000 + 7 + 3 + 5 + 11, kNear);  // 8000 / 32
  EXPECT_NEAR(link_named(all, cluster, "rail nic0: level 2, switch 0 up").bytes, 8 * kSize, 1);
  EXPECT_NEAR(link_named(all, cluster, "rail nic0: level 1, switch 1 up").bytes, 4 * kSize, 1);
  EXPECT_NEAR(link_named(all, cluster, "rail nic0: leaf 7 down").bytes, 2 * kSize, 1);
  EXPECT_TRUE(explain(all, cluster).starts_with("rail nic0 up from level 2 100%"))
      << explain(all, cluster);
}

// Leaves let 500 bytes/us through, so a switch of two of them has nothing to do with 2000.
TEST(Times, LevelsThatBoundNothingAreNoLinks) {
  Cluster cluster = cluster_of(8, 1, 1);
  cluster.rails[0].levels = {{.machines = 2, .oversubscription = 4, .latency_us = 0},
                             {.machines = 4, .oversubscription = 2, .latency_us = 5}};
  Edges edges;
  for (Rank rank = 0; rank < 4; ++rank) edges.emplace_back(rank, rank + 4);
  const Result<Simulation> run = simulate_neighbors(cluster, edges, kSize);
  ASSERT_TRUE(run.ok());
  EXPECT_NEAR(run->finish_us[4], 4000 + 5, kNear);
  for (const Link& link : run->links) EXPECT_EQ(link.level, 0) << name(link, cluster);
}

TEST(Times, PiecesOfOneMessageTakeAllRailsByTheirRates) {
  Cluster cluster = cluster_of(2, 1, 2);
  cluster.rails[1].gbit_per_s = {24, 24};
  const Result<Simulation> large = simulate_neighbors(cluster, {{0, 1}}, 4 * kMiB);
  ASSERT_TRUE(large.ok());
  EXPECT_NEAR(large->total_us, 4 * kMiB / (kRate + 3 * kRate), kNear);
  const Link fast = link_named(*large, cluster, "rail nic1: machine 0 sends");
  EXPECT_NEAR(fast.bytes, 3 * kMiB, 1);
  // So does what is two pieces of the engine's.
  const Result<Simulation> two = simulate_neighbors(cluster, {{0, 1}}, kMiB);
  ASSERT_TRUE(two.ok());
  EXPECT_NEAR(two->total_us, kMiB / (kRate + 3 * kRate), kNear);
  // One piece goes one way, the faster.
  const Result<Simulation> small = simulate_neighbors(cluster, {{0, 1}}, 300'000);
  ASSERT_TRUE(small.ok());
  EXPECT_NEAR(small->total_us, 100, kNear);
}

// The first link of the table is that of an interface which is not there, and carries nothing.
TEST(Times, TheBusiestLinkIsFoundWhereAMachineLacksARail) {
  Cluster cluster = cluster_of(3, 1, 1);
  cluster.rails[0].nics[0] = -1;
  cluster.rails[0].gbit_per_s[0] = 0;
  SimulateOptions options;
  options.keep_bars = true;
  const Result<Simulation> run = simulate_neighbors(cluster, {{1, 2}}, kSize, options);
  ASSERT_TRUE(run.ok()) << run.status().to_string();
  const Link* link = busiest(*run);
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(name(*link, cluster), "rail nic0: machine 1 sends");
  EXPECT_NE(draw_run(*run, cluster, "").find("rail nic0 sending"), std::string::npos);
}

TEST(Times, AStragglerHoldsUpThoseThatNeedIt) {
  const Cluster cluster = cluster_of(4, 1, 1);
  SimulateOptions options;
  options.stragglers = {{.rank = 0, .delay_us = 500}};
  const Result<Simulation> run = simulate_neighbors(cluster, {{0, 1}, {2, 3}}, kSize, options);
  ASSERT_TRUE(run.ok());
  EXPECT_NEAR(run->finish_us[1], 1500, kNear);
  EXPECT_NEAR(run->finish_us[3], 1000, kNear);
  EXPECT_NE(explain(*run, cluster).find("rank 0 is late 33%"), std::string::npos);
}

TEST(Times, CombiningFollowsTheLastPiece) {
  const Cluster cluster = cluster_of(2, 1, 1);
  SimulateOptions options;
  options.combine_gbyte_per_s = 2;  // 2000 bytes/us; two terms, so as fast as the interface
  options.piece_bytes = 100'000;
  Result<Simulation> run = simulate_neighbors(cluster, {{0, 1}}, kSize, options);
  ASSERT_TRUE(run.ok());
  EXPECT_NEAR(run->finish_us[1], 1000 + 100, kNear);
  options.combine_gbyte_per_s = 1;  // half as fast: the interface is not what counts
  run = simulate_neighbors(cluster, {{0, 1}}, kSize, options);
  ASSERT_TRUE(run.ok());
  EXPECT_NEAR(run->finish_us[1], 2000, kNear);
  options.stragglers = {{.rank = 1, .delay_us = 0, .slowdown = 3}};
  run = simulate_neighbors(cluster, {{0, 1}}, kSize, options);
  ASSERT_TRUE(run.ok());
  EXPECT_NEAR(run->finish_us[1], 6000, kNear);
}

TEST(Times, MessagesCostTheProcessorsOfBothEnds) {
  const Cluster cluster = cluster_of(4, 1, 1);
  SimulateOptions options;
  options.message_us = 10;
  const Result<Simulation> run = simulate_neighbors(cluster, {{0, 1}, {0, 2}, {0, 3}}, 0, options);
  ASSERT_TRUE(run.ok());
  EXPECT_NEAR(run->finish_us[3], 40, kNear);  // three are posted, one is taken
}

TEST(Times, RanksOfAMachineShareItsMemory) {
  Cluster cluster = cluster_of(1, 3, 0);
  cluster.memory = {.gbyte_per_s = 1, .machine_gbyte_per_s = 0, .latency_us = 5};
  const Edges edges{{0, 1}, {0, 2}};
  const Result<Simulation> free = simulate_neighbors(cluster, edges, kSize);
  ASSERT_TRUE(free.ok()) << free.status().to_string();
  EXPECT_NEAR(free->finish_us[2], 1005, kNear);
  cluster.memory.machine_gbyte_per_s = 1;
  const Result<Simulation> bound = simulate_neighbors(cluster, edges, kSize);
  ASSERT_TRUE(bound.ok());
  EXPECT_NEAR(bound->finish_us[2], 2005, kNear);
  EXPECT_NEAR(link_named(*bound, cluster, "memory of machine 0").bytes, 2 * kSize, 1);
}

TEST(Times, MessagesOfOneEdgeGoOneAfterTheOther) {
  Cluster cluster = cluster_of(2, 1, 1);
  const auto plan = [](Rank rank) {
    Plan steps;
    const Slice halves[] = {{Buffer::input, 0, 1}, {Buffer::input, 1, 2}};
    steps.partition[0] = steps.partition[1] = {Partition::Kind::even, 2};
    for (std::uint32_t half = 0; half < 2; ++half) {
      if (rank == 0) {
        steps.edges.push_back(0);
        steps.steps.push_back({.slice = halves[half], .first = half, .count = 1});
      } else {
        steps.operands.push_back({.kind = Operand::Kind::message, .slice = {}, .weight = {}});
        steps.steps.push_back({.kind = Step::Kind::combine,
                               .slice = {Buffer::output, half, half + 1},
                               .first = half,
                               .count = 1});
      }
    }
    View view{rank, 2, {}, {}};
    (rank == 0 ? view.out : view.in).push_back(1 - rank);
    return Planned{view, steps};
  };
  SimulateOptions options;
  options.keep_bars = true;
  const Result<Simulation> run = simulate_plans(cluster, 2, plan, {kMiB, kMiB, 0}, options);
  ASSERT_TRUE(run.ok()) << run.status().to_string();
  EXPECT_NEAR(run->bars[0].end_us, kMiB / 2 / kRate, kNear);
  EXPECT_NEAR(run->bars[1].begin_us, kMiB / 2 / kRate, kNear);
  EXPECT_NEAR(run->total_us, kMiB / kRate, kNear);
}

}  // namespace
}  // namespace weft
