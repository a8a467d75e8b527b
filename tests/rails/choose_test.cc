// What ranks use, and why.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/rails/fabric.h"
#include "topology/rails/rails.h"

namespace weft {
namespace {

using Rails = std::vector<int>;

RailUse choose(const Cluster& cluster, RailPolicy policy = RailPolicy::near) {
  const auto use = choose_rails(cluster, Placement::identity(cluster.ranks()), policy);
  EXPECT_TRUE(use.ok()) << use.status().to_string();
  return use.value();
}

Rails rails_of(const RailUse& use, Rank rank) {
  const auto rails = use.rails_of(rank);
  return {rails.begin(), rails.end()};
}

Rails between(const RailUse& use, Rank from, Rank to) {
  Rails rails;
  use.rails_between(from, to, rails);
  return rails;
}

// How near a rank's interface is to its GPU.
Nearness nearness(const Cluster& cluster, const RailUse& use, Rank rank) {
  const auto machine = static_cast<std::size_t>(cluster.machine_of(rank));
  const Rail& rail = cluster.rails[static_cast<std::size_t>(use.rails_of(rank).front())];
  const Machine& hardware = *cluster.machines[machine].hardware;
  const Nic& nic = hardware.nics[static_cast<std::size_t>(rail.nics[machine])];
  return distance(nic.place, hardware.gpus[static_cast<std::size_t>(rank % 8)].place).nearness;
}

TEST(NearRails, EachGpuHasTheInterfaceBelowItsSwitch) {
  const Cluster cluster = eight_gpus({"", ""});
  const RailUse use = choose(cluster);
  for (Rank rank = 0; rank < 16; ++rank) {
    EXPECT_EQ(rails_of(use, rank), Rails{rank % 8});
    EXPECT_EQ(nearness(cluster, use, rank), Nearness::one_switch);
  }
  EXPECT_EQ(use.reason_of(11), "mlx5_3 and GPU 3 are below one PCI switch");
  EXPECT_EQ(between(use, 3, 11), Rails{3});
  EXPECT_EQ(between(use, 3, 12), (Rails{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(NearRails, WithAnyInterfaceGoneNoneCarriesMoreThanTwo) {
  for (int gone = 0; gone < 8; ++gone) {
    const Cluster cluster = eight_gpus({"mlx5_" + std::to_string(gone), "", ""});
    const RailUse use = choose(cluster);
    std::map<int, int> ranks_on;
    for (Rank rank = 0; rank < 8; ++rank) {
      ASSERT_EQ(use.rails_of(rank).size(), 1U);
      ++ranks_on[use.rails_of(rank).front()];
      EXPECT_EQ(nearness(cluster, use, rank), Nearness::one_switch) << rank;
    }
    EXPECT_EQ(ranks_on.size(), 7U);
    EXPECT_FALSE(ranks_on.contains(gone));
    for (const auto& [rail, ranks] : ranks_on) EXPECT_LE(ranks, 2);
    const Rank neighbor = gone ^ 1;  // below the same switch
    EXPECT_TRUE(use.reason_of(neighbor).ends_with("; 2 ranks share it"));
    // The other machine's GPU has its own interface, which this one lacks: all others that both
    // have.
    EXPECT_EQ(between(use, gone, 8 + gone).size(), 7U);
  }
}

TEST(NearRails, MoreInterfacesThanRanksAreSharedOut) {
  const RailUse one = choose(fabric({.machines = 2, .ranks = 1, .rails = 3}));
  EXPECT_EQ(rails_of(one, 0), (Rails{0, 1, 2}));
  EXPECT_EQ(one.reason_of(0),
            "eth0, distance unknown; eth1, distance unknown; eth2, distance unknown");
  const RailUse two = choose(fabric({.machines = 2, .ranks = 2, .rails = 4}));
  Rails all = rails_of(two, 0);
  std::ranges::copy(two.rails_of(1), std::back_inserter(all));
  std::ranges::sort(all);
  EXPECT_EQ(all, (Rails{0, 1, 2, 3}));
  EXPECT_EQ(two.rails_of(0).size(), 2U);
}

TEST(NearRails, ManyRanksOnFewInterfaces) {
  const RailUse use = choose(fabric({.machines = 2, .ranks = 1000, .rails = 3}));
  std::map<int, int> ranks_on;
  for (Rank rank = 0; rank < 1000; ++rank) ++ranks_on[use.rails_of(rank).front()];
  for (const auto& [rail, ranks] : ranks_on) EXPECT_LE(ranks, 334);
}

// Machines of two nodes with four cores each: a quarter of the ranks is on either.
Cluster two_nodes(int ranks, const std::vector<int>& nodes_of_interfaces) {
  const int rails = static_cast<int>(nodes_of_interfaces.size());
  Machine machine = *fabric({.machines = 2, .rails = rails}).machines[0].hardware;
  machine.nodes = {{.index = 0, .cores = 4}, {.index = 1, .cores = 4}};
  for (std::size_t nic = 0; nic < machine.nics.size(); ++nic)
    machine.nics[nic].place.numa_node = nodes_of_interfaces[nic];
  return uniform_cluster(std::make_shared<const Machine>(machine), 2, ranks).value();
}

TEST(AutomaticRails, AreNearWhereDistancesDiffer) {
  const RailUse near = choose(two_nodes(2, {0, 1}), RailPolicy::automatic);
  EXPECT_EQ(rails_of(near, 0), Rails{0});
  EXPECT_EQ(rails_of(near, 1), Rails{1});
  const RailUse flat = choose(two_nodes(2, {0, 0}), RailPolicy::automatic);
  for (const Rank rank : {0, 1}) {
    EXPECT_EQ(rails_of(flat, rank), (Rails{0, 1}));
    EXPECT_EQ(flat.reason_of(rank),
              "all rails of its machine: none is known to be nearer than another");
  }
  const RailUse gpus = choose(eight_gpus({"", ""}), RailPolicy::automatic);
  for (Rank rank = 0; rank < 16; ++rank) EXPECT_EQ(rails_of(gpus, rank), Rails{rank % 8});
}

// One much slower than the others is no reason to keep ranks from those.
TEST(AutomaticRails, AreNotDecidedByAnInterfaceThatNobodyUses) {
  EXPECT_TRUE(share_rails({{1, 1, 2}, {1, 1, 2}}, {100, 100, 1}, RailPolicy::automatic).empty());
  EXPECT_FALSE(share_rails({{1, 1, 2}, {1, 1, 2}}, {100, 100, 50}, RailPolicy::automatic).empty());
  EXPECT_TRUE(share_rails({{}, {}}, {}, RailPolicy::near).empty());
}

TEST(NearRails, UnevenRanksTakeTheNearestFirst) {
  // Ranks 0 and 1 are on node 0, rank 2 on node 1.
  const RailUse each = choose(two_nodes(3, {0, 1}));
  EXPECT_EQ(rails_of(each, 0), Rails{0});
  EXPECT_EQ(rails_of(each, 1), Rails{0});
  EXPECT_EQ(rails_of(each, 2), Rails{1});
  EXPECT_EQ(each.reason_of(1),
            "eth0 and node 0 are on one NUMA node, across host bridges; 2 ranks share it");
  // Both on node 1: one of the ranks near neither has an interface of its own.
  const RailUse one_side = choose(two_nodes(3, {1, 1}));
  std::map<int, int> ranks_on;
  for (Rank rank = 0; rank < 3; ++rank) ++ranks_on[rails_of(one_side, rank).front()];
  EXPECT_EQ(ranks_on, (std::map<int, int>{{0, 2}, {1, 1}}));
}

TEST(NearRails, WhoMustGoFartherIsToldWhy) {
  const RailUse use = choose(two_nodes(5, {0, 1, 1}));  // ranks 0 … 2 on node 0
  std::map<int, int> ranks_on;
  for (Rank rank = 0; rank < 5; ++rank) ++ranks_on[rails_of(use, rank).front()];
  EXPECT_EQ(ranks_on[0], 2);
  EXPECT_EQ(ranks_on[1] + ranks_on[2], 3);
  int farther = 0;
  for (Rank rank = 0; rank < 3; ++rank) {
    if (rails_of(use, rank) == Rails{0}) continue;
    ++farther;
    EXPECT_TRUE(use.reason_of(rank).ends_with("; nearer eth0 has its share, 2 ranks"))
        << use.reason_of(rank);
  }
  EXPECT_EQ(farther, 1);
}

TEST(NearRails, InterfacesLeftOverGoToTheNearest) {
  const RailUse two = choose(two_nodes(2, {0, 1, 1}));
  EXPECT_EQ(rails_of(two, 0), Rails{0});
  EXPECT_EQ(rails_of(two, 1), (Rails{1, 2}));
  const RailUse three = choose(fabric({.machines = 2, .ranks = 3, .rails = 8}));
  Rails all;
  for (Rank rank = 0; rank < 3; ++rank) {
    EXPECT_GE(three.rails_of(rank).size(), 2U);
    EXPECT_LE(three.rails_of(rank).size(), 3U);
    std::ranges::copy(three.rails_of(rank), std::back_inserter(all));
  }
  std::ranges::sort(all);
  EXPECT_EQ(all, (Rails{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(NearRails, ProcessorsHaveTheInterfacesOfTheirNode) {
  Machine machine = *fabric({.machines = 2, .rails = 2}).machines[0].hardware;
  machine.nodes = {{.index = 0, .cores = 4}, {.index = 1, .cores = 4}};
  machine.nics[0].place.numa_node = 1;
  machine.nics[1].place.numa_node = 0;
  const RailUse use =
      choose(uniform_cluster(std::make_shared<const Machine>(machine), 2, 4).value());
  EXPECT_EQ(rails_of(use, 1), Rails{1});
  EXPECT_EQ(rails_of(use, 2), Rails{0});
  EXPECT_EQ(use.reason_of(2),
            "eth0 and node 1 are on one NUMA node, across host bridges; 2 ranks share it");
}

TEST(NearRails, RatesCount) {
  Cluster cluster = fabric({.machines = 2, .ranks = 3, .rails = 2});
  cluster.rails[1].gbit_per_s = {50, 50};
  const RailUse use = choose(cluster);  // two ranks on the fast one, one on the slow one
  EXPECT_EQ(rails_of(use, 0).size() + rails_of(use, 1).size() + rails_of(use, 2).size(), 3U);
  int on_fast = 0;
  for (Rank rank = 0; rank < 3; ++rank) on_fast += use.rails_of(rank).front() == 0 ? 1 : 0;
  EXPECT_EQ(on_fast, 2);
  cluster.rails[1].gbit_per_s = {1, 1};  // not worth its latency
  EXPECT_EQ(rails_of(choose(cluster), 2), Rails{0});
  EXPECT_EQ(rails_of(choose(cluster, RailPolicy::all), 2), (Rails{0, 1}));
}

TEST(RailUse, OnlyRailsThatReach) {
  const RailUse use = choose(bcube_fabric(2, 2), RailPolicy::all);
  EXPECT_EQ(between(use, 0, 1), Rails{0});
  EXPECT_EQ(between(use, 1, 3), Rails{1});
  EXPECT_EQ(between(use, 0, 3), Rails{});
}

TEST(RailUse, ARailWithoutCompanyIsLeftOut) {
  Cluster cluster = fabric({.machines = 3, .ranks = 1, .rails = 3});
  cluster.rails[1].nics = {0, -1, -1};  // one machine
  cluster.rails[2].levels = {{.machines = 2}};
  cluster.rails[2].has_top = false;  // machine 2 is alone below its leaf
  const RailUse use = choose(cluster);
  EXPECT_EQ(rails_of(use, 0), (Rails{0, 2}));
  EXPECT_EQ(rails_of(use, 2), Rails{0});
  EXPECT_EQ(between(use, 0, 2), Rails{0});
  cluster.rails[0].nics = {-1, 0, 0};
  EXPECT_EQ(between(choose(cluster), 0, 2), Rails{});
}

// As in a bond: two machines use one kind of network.
TEST(RailUse, RdmaGoesBeforeOtherNetworks) {
  const Cluster cluster = with_rdma(fabric({.machines = 3, .ranks = 2, .rails = 4}), 2);
  const RailUse all = choose(cluster, RailPolicy::all);
  EXPECT_EQ(rails_of(all, 0), (Rails{0, 1}));
  EXPECT_EQ(between(all, 0, 4), (Rails{0, 1}));
  EXPECT_EQ(all.reason_of(0),
            "all rails of its machine; not rails eth2, eth3: RDMA reaches the same machines");
  EXPECT_TRUE(all.goes_rdma_before(0, 4));
  EXPECT_EQ(all.rails_beside(4), (Rails{0, 1}));
  const RailUse near = choose(cluster);
  EXPECT_EQ(rails_of(near, 0), Rails{0});
  EXPECT_EQ(rails_of(near, 1), Rails{1});
  EXPECT_EQ(between(near, 0, 3), (Rails{0, 1})) << "none in common, but these have RDMA";
  // A machine alone in the world shows all that it has.
  const auto alone = choose_rails(cluster, Placement::identity(2), RailPolicy::all);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(rails_of(*alone, 1), (Rails{0, 1, 2, 3}));
}

TEST(RailUse, OtherNetworksReachWhomRdmaDoesNot) {
  Cluster cluster = with_rdma(fabric({.machines = 3, .ranks = 2, .rails = 4}), 2);
  for (Rail* rail : {&cluster.rails[0], &cluster.rails[1]}) rail->nics[2] = -1;
  const RailUse use = choose(cluster);
  // Each kind is shared out by itself.
  EXPECT_EQ(rails_of(use, 0), (Rails{0, 2}));
  EXPECT_EQ(rails_of(use, 1), (Rails{1, 3}));
  EXPECT_EQ(rails_of(use, 4), Rails{2});
  EXPECT_EQ(use.rails_beside(1), (Rails{0, 1, 2, 3}));
  EXPECT_EQ(use.rails_beside(5), (Rails{2, 3}));
  EXPECT_EQ(between(use, 0, 2), Rails{0});
  EXPECT_EQ(between(use, 0, 4), Rails{2});
  EXPECT_TRUE(use.goes_rdma_before(0, 2));
  EXPECT_FALSE(use.goes_rdma_before(0, 4));
  // A card with RDMA at one end only is an interface like others.
  Cluster half = with_rdma(fabric({.machines = 2, .ranks = 1, .rails = 2}), 2);
  half.machines[1].hardware = fabric({.machines = 2, .rails = 2}).machines[0].hardware;
  EXPECT_EQ(between(choose(half, RailPolicy::all), 0, 1), (Rails{0, 1}));
}

TEST(RailUse, SeatsDecide) {
  const Cluster cluster = eight_gpus({"", ""});
  Placement placement = Placement::identity(16);
  std::swap(placement.seat[3], placement.seat[12]);
  const Result<RailUse> use = choose_rails(cluster, placement);
  ASSERT_TRUE(use.ok());
  EXPECT_EQ(rails_of(*use, 3), Rails{4});
  EXPECT_EQ(rails_of(*use, 12), Rails{3});
  EXPECT_EQ(between(*use, 3, 4), Rails{4});
}

// As in the engine: who is alone on a machine has all of it, whatever there is room for.
TEST(RailUse, FreeSeatsTakeNoShare) {
  const Cluster cluster = eight_gpus({"", "", ""});
  const auto chosen = [&cluster](std::vector<int> seats) {
    const auto use = choose_rails(cluster, {std::move(seats)}, RailPolicy::near);
    EXPECT_TRUE(use.ok()) << use.status().to_string();
    return use.value();
  };
  const RailUse nine = chosen(Placement::identity(9).seat);
  EXPECT_EQ(rails_of(nine, 7), Rails{7});
  EXPECT_EQ(rails_of(nine, 8).size(), 8U);
  EXPECT_EQ(between(nine, 7, 8), Rails{7});
  EXPECT_EQ(nine.reason_of(8).find("share it"), std::string::npos) << nine.reason_of(8);
  // Two ranks of a machine are its local ranks 0 and 1, in the order of their seats.
  const RailUse few = chosen({14, 0, 11});
  EXPECT_EQ(rails_of(few, 1).size(), 8U);
  EXPECT_EQ(rails_of(few, 2), (Rails{0, 1, 2, 3}));
  EXPECT_EQ(rails_of(few, 0), (Rails{4, 5, 6, 7}));
}

TEST(RailUse, AMachineWithoutRanksIsNoCompany) {
  Cluster cluster = fabric({.machines = 3, .ranks = 2, .rails = 2});
  cluster.rails[1].nics = {1, -1, 1};
  const auto rails_of_first = [&cluster](int ranks) {
    const auto use = choose_rails(cluster, Placement::identity(ranks), RailPolicy::all);
    return use.ok() ? rails_of(use.value(), 0) : Rails{};
  };
  EXPECT_EQ(rails_of_first(5), (Rails{0, 1}));
  EXPECT_EQ(rails_of_first(4), Rails{0});
  EXPECT_EQ(rails_of_first(2), (Rails{0, 1})) << "alone in the world";
}

TEST(RailUse, MistakesAreNamed) {
  Cluster cluster = fabric({.machines = 2, .ranks = 2, .rails = 2});
  const auto complaint = [&cluster](std::vector<int> seats) {
    return choose_rails(cluster, {std::move(seats)}).status().to_string();
  };
  EXPECT_EQ(complaint({0, 1, 2, 3, 4}),
            "invalid_argument: 2 x 2 interfaces has room for 4 ranks, not for 5");
  EXPECT_EQ(complaint({0, 4}), "invalid_argument: rank 1 has seat 4, of 4");
  EXPECT_EQ(complaint({3, 1, 3}), "invalid_argument: ranks 0 and 2 have the same seat, 3");
  cluster.rails[1].nics[0] = 7;
  EXPECT_EQ(complaint({0}),
            "unavailable: rail eth1: the network interface that machine 0 had on it, number 7 of "
            "its list, is gone: it has eth0, eth1");
}

}  // namespace
}  // namespace weft
