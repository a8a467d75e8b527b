// The ways of edges, loads and times, compared with what pencil and paper say.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/rails/fabric.h"
#include "topology/rails/rails.h"

namespace weft {
namespace {

constexpr double kBytes = 1'000'000;  // 80 us at 100 Gbit/s
constexpr double kUs = 80;

RailMap map_of(const Cluster& cluster, const Graph& graph, RailPolicy policy = RailPolicy::near,
               double bytes = kBytes) {
  auto map = map_graph(cluster, graph, Placement::identity(graph.size()),
                       {.policy = policy, .bytes = bytes});
  EXPECT_TRUE(map.ok()) << map.status().to_string();
  return std::move(map).value();
}

double load(const RailMap& map, const std::string& name) {
  const auto found = std::ranges::find(map.loads, name, &LinkLoad::name);
  return found == map.loads.end() ? 0 : found->messages;
}

TEST(Map, OneRailBetweenMachines) {
  const Cluster cluster = fabric({.machines = 4, .ranks = 1, .rails = 1});
  const RailMap map = map_of(cluster, *exponential_graph(4));  // to the next and the one after
  ASSERT_EQ(map.edges.size(), 8U);
  for (const MappedEdge& edge : map.edges) {
    ASSERT_EQ(edge.ways.size(), 1U);
    EXPECT_EQ(edge.reason, EdgeReason::both_use);
    EXPECT_DOUBLE_EQ(edge.us, 2 * kUs + 2);  // two messages leave each interface
    EXPECT_DOUBLE_EQ(edge.alone_us, kUs + 2);
    EXPECT_EQ(reason_text(edge, cluster), "both ranks use rail eth0");
  }
  EXPECT_DOUBLE_EQ(map.us, 2 * kUs + 2);
  EXPECT_EQ(map.loads.size(), 8U);
  EXPECT_DOUBLE_EQ(load(map, "rail eth0: machine 2 receives"), 2);
  EXPECT_TRUE(map.between_switches.empty());
}

TEST(Map, SeveralRailsShareByRate) {
  Cluster cluster = fabric({.machines = 2, .ranks = 1, .rails = 2});
  cluster.rails[1].gbit_per_s = {300, 200};
  const RailMap map = map_of(cluster, *ring_graph(2, RingStyle::next));
  ASSERT_EQ(map.edges[0].ways.size(), 2U);
  EXPECT_DOUBLE_EQ(map.edges[0].ways[0].share, 1.0 / 3);
  EXPECT_DOUBLE_EQ(map.edges[0].ways[1].share, 2.0 / 3);
  EXPECT_DOUBLE_EQ(map.us, kUs / 3 + 2);
}

// A piece takes one rail, and transports cut messages into pieces: 256 KiB over RDMA, else 512 KiB.
TEST(Map, AMessageHasNoMoreWaysThanPieces) {
  Cluster plain = fabric({.machines = 2, .ranks = 1, .rails = 4});
  plain.rails[2].gbit_per_s = {200, 200};
  const Cluster rdma = with_rdma(plain, 4);
  const auto rails_of = [](const Cluster& cluster, double bytes) {
    const RailMap map = map_of(cluster, *ring_graph(2, RingStyle::next), RailPolicy::all, bytes);
    std::vector<int> rails;
    double all = 0;
    for (const Way& way : map.edges[0].ways) {
      rails.push_back(way.rail);
      all += way.share;
    }
    EXPECT_DOUBLE_EQ(all, 1);
    return rails;
  };
  using Rails = std::vector<int>;
  EXPECT_EQ(rails_of(plain, 1), Rails{2}) << "the fastest";
  EXPECT_EQ(rails_of(plain, 512 << 10), Rails{2});
  EXPECT_EQ(rails_of(plain, (512 << 10) + 1), (Rails{0, 2}));
  EXPECT_EQ(rails_of(plain, 3 * (512 << 10)), (Rails{0, 1, 2}));
  EXPECT_EQ(rails_of(plain, 2 << 20), (Rails{0, 1, 2, 3}));
  EXPECT_EQ(rails_of(rdma, 256 << 10), Rails{2});
  EXPECT_EQ(rails_of(rdma, 512 << 10), (Rails{0, 2}));
  EXPECT_EQ(rails_of(rdma, 1 << 20), (Rails{0, 1, 2, 3}));
  const RailMap map = map_of(plain, *ring_graph(2, RingStyle::next), RailPolicy::all, 1000);
  EXPECT_DOUBLE_EQ(map.us, 0.04 + 2);
  EXPECT_EQ(reason_text(map.edges[0], plain),
            "both ranks use rail eth2; a message has no more pieces");
}

TEST(Map, RanksOfOneMachineReadMemory) {
  Cluster cluster = fabric({.machines = 1, .ranks = 3, .rails = 1});
  cluster.memory = {.gbyte_per_s = 10, .machine_gbyte_per_s = 20, .latency_us = 0.5};
  const RailMap map = map_of(cluster, *ring_graph(3));  // each reads two of a million bytes
  EXPECT_EQ(map.edges[0].reason, EdgeReason::memory);
  EXPECT_TRUE(map.edges[0].ways.empty());
  EXPECT_DOUBLE_EQ(load(map, "seat 1 reads"), 2);
  EXPECT_DOUBLE_EQ(load(map, "memory of machine 0"), 6);
  EXPECT_DOUBLE_EQ(map.us, 6 * 50 + 0.5);
}

TEST(Map, LeavesCarryWhatLeavesThem) {
  const Cluster cluster = tree({});  // 4 leaves of 4 machines, their links carry a fourth
  const RailMap map = map_of(cluster, *ring_graph(16, RingStyle::next));
  EXPECT_EQ(map.between_switches, std::vector<double>{4});
  EXPECT_DOUBLE_EQ(load(map, "rail eth0: leaf 1 up"), 1);
  EXPECT_DOUBLE_EQ(load(map, "rail eth0: leaf 1 down"), 1);
  EXPECT_DOUBLE_EQ(map.us, kUs + 3);  // 4 machines of 100 Gbit/s: a leaf has 100
  const RailMap in_turn = map_of(tree({.in_turn = true}), *ring_graph(16, RingStyle::next));
  EXPECT_EQ(in_turn.between_switches, std::vector<double>{16});
  EXPECT_DOUBLE_EQ(in_turn.us, 4 * kUs + 3);
  EXPECT_EQ(in_turn.loads.front().kind, LinkKind::up);
}

TEST(Map, EachLevelCarriesWhatPassesIt) {
  const Cluster cluster = three_levels();
  const RailMap ring = map_of(cluster, *ring_graph(16, RingStyle::next));
  EXPECT_EQ(ring.between_switches, (std::vector<double>{8, 4, 2}));
  for (const char* one : {"leaf 7 up", "leaf 0 down", "level 1, switch 3 up",
                          "level 1, switch 0 down", "level 2, switch 1 up"})
    EXPECT_DOUBLE_EQ(load(ring, std::string("rail eth0: ") + one), 1) << one;
  EXPECT_EQ(ring.loads.front().kind, LinkKind::up);
  EXPECT_EQ(ring.loads.front().level, 2);
  // One message on each link: interfaces and leaves of 100 Gbit/s, then 50, then 25. The latency
  // grows by that of each level.
  const auto us = [&](Rank from) {
    return std::ranges::find(ring.edges, from, &MappedEdge::from)->us;
  };
  EXPECT_DOUBLE_EQ(us(0), kUs + 2);
  EXPECT_DOUBLE_EQ(us(1), kUs + 3);
  EXPECT_DOUBLE_EQ(us(3), 2 * kUs + 5);
  EXPECT_DOUBLE_EQ(us(7), 4 * kUs + 9);
  EXPECT_DOUBLE_EQ(us(15), 4 * kUs + 9);
  // To the next but 1, 2, 4 and 8: of a leaf's 8 messages 1 + 2 + 2 + 2 leave it, and so on.
  const RailMap exponential = map_of(cluster, *exponential_graph(16));
  EXPECT_EQ(exponential.between_switches, (std::vector<double>{8 * 7, 4 * 11, 2 * 15}));
  EXPECT_DOUBLE_EQ(load(exponential, "rail eth0: level 1, switch 2 up"), 11);
  EXPECT_DOUBLE_EQ(exponential.us, 15 * 4 * kUs + 9);
}

// Machines 0 and 8 are below leaf 0, 1 and 9 below leaf 1; both leaves below one switch.
TEST(Map, LeavesInTurnAreBelowOneSwitchInTheirOrder) {
  const RailMap ring = map_of(three_levels(8), *ring_graph(16, RingStyle::next));
  EXPECT_EQ(ring.between_switches, (std::vector<double>{16, 8, 4}));
  EXPECT_DOUBLE_EQ(load(ring, "rail eth0: level 2, switch 0 up"), 2);
}

// What a switch's links carry may be said itself, and parts of a rail may be apart on any level.
TEST(Map, LinksUpwardsOfAGivenRate) {
  Cluster cluster = three_levels();
  cluster.rails[0].levels[2].gbit_per_s = 10;
  EXPECT_DOUBLE_EQ(map_of(cluster, *ring_graph(16, RingStyle::next)).us, 10 * kUs + 9);
  cluster.rails[0].levels.pop_back();
  cluster.rails[0].has_top = false;
  const auto apart = map_graph(cluster, *ring_graph(5), Placement::identity(5), {});
  EXPECT_EQ(apart.status().to_string(),
            "invalid_argument: edge 4 -> 0: machine 4 and machine 0 share no rail");
  EXPECT_TRUE(map_graph(cluster, *ring_graph(4), Placement::identity(4), {}).ok());
}

// Four times as fast, plain Ethernet would have most of the bytes by its rate.
TEST(Map, RdmaCarriesAllWhereItReaches) {
  Cluster cluster = with_rdma(fabric({.machines = 2, .ranks = 1, .rails = 2}), 1);
  cluster.rails[1].gbit_per_s = {400, 400};
  const RailMap map = map_of(cluster, *ring_graph(2, RingStyle::next));
  ASSERT_EQ(map.edges[0].ways.size(), 1U);
  EXPECT_EQ(map.edges[0].ways[0].rail, 0);
  EXPECT_DOUBLE_EQ(map.us, kUs + 2);
  EXPECT_DOUBLE_EQ(load(map, "rail eth1: machine 0 sends"), 0);
  EXPECT_EQ(reason_text(map.edges[0], cluster),
            "both ranks use rail eth0; RDMA goes before other networks");
}

constexpr RailPolicy kPolicies[] = {RailPolicy::automatic, RailPolicy::near, RailPolicy::all};

TEST(Map, LevelsOfABcubeHaveTheirRailsWhereItIsCabledAsOne) {
  const Graph graph = *bcube_graph({.base = 3, .digits = 2});
  const Cluster cluster = bcube_fabric(3, 2);
  for (const RailPolicy policy : kPolicies) {
    const RailMap map = map_of(cluster, graph.renamed("some graph"), policy);
    for (const MappedEdge& edge : map.edges) {
      const int level = edge.from % 3 == edge.to % 3 ? 1 : 0;
      ASSERT_EQ(edge.ways.size(), 1U);
      EXPECT_EQ(edge.ways[0].rail, level);
      EXPECT_EQ(edge.level, level);
      EXPECT_EQ(edge.reason, EdgeReason::level);
    }
    EXPECT_DOUBLE_EQ(map.us, 2 * kUs + 2);
    EXPECT_EQ(reason_text(map.edges[0], cluster), "level 0 of a BCube: rail eth0");
  }
  const RailMap ring = map_of(bcube_fabric(4, 2), *ring_graph(4));
  EXPECT_EQ(ring.edges[0].reason, EdgeReason::both_use) << "no BCube";
}

// As in the engine: whatever the graph, an edge's bytes take all rails that both ends use.
TEST(Map, EdgesOfABcubeTakeAllRailsThatReach) {
  const Graph graph = *bcube_graph({.base = 3, .digits = 2});
  for (const RailPolicy policy : kPolicies) {
    const Cluster cluster = fabric({.machines = 9, .ranks = 1, .rails = 2});
    const RailMap map = map_of(cluster, graph, policy);
    for (const MappedEdge& edge : map.edges) {
      EXPECT_EQ(edge.ways.size(), 2U);
      EXPECT_EQ(edge.reason, EdgeReason::both_use);
      EXPECT_DOUBLE_EQ(edge.alone_us, kUs / 2 + 2);
    }
    EXPECT_DOUBLE_EQ(map.us, 2 * kUs + 2);
  }
  // A slow rail has little to carry.
  Cluster uneven = fabric({.machines = 16, .ranks = 1, .rails = 4});
  uneven.rails[1].gbit_per_s.assign(16, 1);
  const RailMap map =
      map_of(uneven, *bcube_graph({.base = 4, .digits = 2}), RailPolicy::automatic, 4 * kBytes);
  EXPECT_NEAR(map.us, 6 * 4 * kUs * 100 / 301 + 2, 1e-9);
}

TEST(Map, EachGpuSendsOverItsInterface) {
  const Cluster cluster = eight_gpus({"", "", "", ""});
  const Graph graph = *make_graph("torus:4x8", 32);  // rows are machines
  const RailMap map = map_of(cluster, graph);
  for (const MappedEdge& edge : map.edges) {
    if (edge.from / 8 == edge.to / 8) {
      EXPECT_EQ(edge.reason, EdgeReason::memory);
    } else {
      ASSERT_EQ(edge.ways.size(), 1U);
      EXPECT_EQ(edge.ways[0].rail, edge.from % 8);
    }
  }
}

TEST(Map, MistakesAreNamed) {
  const Cluster cluster = bcube_fabric(2, 2);
  const auto complaint = [&cluster](const Graph& graph, int ranks) {
    return map_graph(cluster, graph, Placement::identity(ranks), {}).status().to_string();
  };
  EXPECT_EQ(complaint(*fully_connected_graph(4), 4),
            "invalid_argument: edge 3 -> 0: machine 3 and machine 0 share no rail");
  EXPECT_EQ(complaint(*ring_graph(5), 5),
            "invalid_argument: 4 x 2 interfaces has room for 4 ranks, not for 5");
  EXPECT_EQ(complaint(*ring_graph(3), 4),
            "invalid_argument: ring:style=0 has 3 ranks, the placement 4");
}

}  // namespace
}  // namespace weft
