// Placements are never worse than the identity, and better where they can be.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/base/sanitized.h"
#include "tests/rails/fabric.h"
#include "topology/rails/rails.h"

namespace weft {
namespace {

constexpr int kSwaps = 20'000;

FoundPlacement place(const Cluster& cluster, const Graph& graph, int swaps = kSwaps) {
  PlacementSearch search;
  search.most_swaps = swaps;
  auto found = place_ranks(cluster, graph, search);
  EXPECT_TRUE(found.ok()) << found.status().to_string();
  return std::move(found).value();
}

// The found placement is one, and costs what it is said to cost.
void check(const Cluster& cluster, const Graph& graph, const FoundPlacement& found,
           const MapOptions& options = {}) {
  std::vector<int> seats = found.placement.seat;
  std::ranges::sort(seats);
  EXPECT_EQ(std::ranges::adjacent_find(seats), seats.end());
  EXPECT_FALSE(found.identity.is_below(found.found)) << graph.name();
  const auto map = map_graph(cluster, graph, found.placement, options);
  ASSERT_TRUE(map.ok()) << map.status().to_string();
  EXPECT_DOUBLE_EQ(map->us, found.found.us);
  EXPECT_EQ(map->between_switches, found.found.between_switches);
  EXPECT_EQ(found.is_identity(), !found.found.is_below(found.identity));
}

// The same graph under other numbers.
Graph shuffled(const Graph& graph) {
  std::vector<Rank> number(static_cast<std::size_t>(graph.size()));
  std::iota(number.begin(), number.end(), 0);
  std::mt19937_64 random(7);
  for (std::size_t i = number.size(); i > 1; --i) std::swap(number[i - 1], number[random() % i]);
  std::vector<Edge> edges = graph.edges();
  for (Edge& edge : edges) {
    edge.from = number[static_cast<std::size_t>(edge.from)];
    edge.to = number[static_cast<std::size_t>(edge.to)];
  }
  return Graph::from_edges(graph.size(), edges, graph.self_weights(), "shuffled").value();
}

TEST(Placement, NeverLosesToTheIdentity) {
  for (const char* name :
       {"ring", "exponential", "symmetric_exponential", "hypercube", "grid", "star", "tree",
        "fully_connected", "random_regular:d=3", "erdos_renyi:p=0.3,seed=1", "bcube:a=4"}) {
    for (const bool in_turn : {false, true}) {
      const Cluster cluster = tree({.in_turn = in_turn});
      const Graph graph = make_graph(name, 16).value();
      check(cluster, graph, place(cluster, graph, searched(kSwaps, 500)));
    }
  }
}

TEST(Placement, ARingIsCutOnceALeaf) {
  // Leaf after leaf, the ring is as good as can be, and stays.
  const FoundPlacement kept = place(tree({}), *ring_graph(16));
  EXPECT_TRUE(kept.is_identity());
  EXPECT_EQ(kept.found.between_switches, std::vector<double>{8});
  // Where neighbors are below different leaves, everything would leave its own.
  const FoundPlacement found = place(tree({.in_turn = true}), *ring_graph(16));
  EXPECT_EQ(found.identity.between_switches, std::vector<double>{32});
  EXPECT_EQ(found.found.between_switches, std::vector<double>{8});
  EXPECT_LT(found.found.us, found.identity.us / 3);
  const FoundPlacement mixed = place(tree({.ranks = 4}), shuffled(*ring_graph(64)));
  EXPECT_EQ(mixed.found.between_switches, std::vector<double>{8});
}

// Ranks that are 4 and 8 apart belong together: 8 of a leaf's 16 messages leave it, and not 11.
TEST(Placement, ExponentialGraphsBeatTheOrderOfLeaves) {
  const Cluster cluster = tree({});
  const Graph graph = *exponential_graph(16);
  const FoundPlacement found = place(cluster, graph);
  check(cluster, graph, found);
  EXPECT_EQ(found.identity.between_switches, std::vector<double>{44});
  EXPECT_EQ(found.found.between_switches, std::vector<double>{32});
  EXPECT_LT(found.found.us, 0.75 * found.identity.us);
  const FoundPlacement mixed = place(cluster, shuffled(graph));
  EXPECT_DOUBLE_EQ(mixed.found.us, found.found.us);
}

// Four by four, one quarter of the grid a leaf: greedy takes row by row.
TEST(Placement, SwapsImproveOnGreedy) {
  const FoundPlacement found = place(tree({}), *grid_graph(16));
  EXPECT_EQ(found.greedy.between_switches, std::vector<double>{24});
  EXPECT_EQ(found.found.between_switches, std::vector<double>{16});
  EXPECT_LT(found.found.us, 0.6 * found.greedy.us);
}

// Each switch of each level is cut off from the ring once.
TEST(Placement, ARingOnThreeLevelsIsCutOnceASwitch) {
  const std::vector<double> least{16, 8, 4};
  EXPECT_TRUE(place(three_levels(), *ring_graph(16)).is_identity());
  for (const int stride : {2, 4, 8}) {
    const Cluster cluster = three_levels(stride);
    for (const Graph& graph : {*ring_graph(16), shuffled(*ring_graph(16))}) {
      const FoundPlacement found = place(cluster, graph);
      check(cluster, graph, found);
      EXPECT_EQ(found.found.between_switches, least) << stride << " " << graph.name();
      // With less than 8 between a leaf's machines, what is slowest, above, is so already.
      EXPECT_TRUE(found.found.is_below(found.identity));
      if (stride == 8) {
        EXPECT_LT(found.found.us, found.identity.us);
      }
    }
  }
}

// Listed leaf by leaf, 15 of 32 messages of half of the machines go to the other half.
TEST(Placement, ExponentialGraphsOnThreeLevelsLowerAllOfThem) {
  const Graph graph = *exponential_graph(16);
  for (const Graph& each : {graph, shuffled(graph)}) {
    const Cluster cluster = three_levels();
    const FoundPlacement found = place(cluster, each);
    check(cluster, each, found);
    for (std::size_t level = 0; level < 3; ++level) {
      EXPECT_LT(found.found.between_switches[level], found.identity.between_switches[level])
          << level << " " << each.name();
    }
    EXPECT_LT(found.found.us, 0.75 * found.identity.us);
  }
}

// Rank 2 begins a new switch of level 1 and gets rank 3 there, with which it talks, not rank 4,
// which has more edges, but with those that sit below another one.
TEST(Placement, GreedyFillsSwitchAfterSwitch) {
  Cluster cluster = fabric({.machines = 6, .ranks = 1, .rails = 1});
  cluster.rails[0].levels = {{.machines = 1}, {.machines = 2}};
  std::vector<Edge> edges;
  for (const auto& [a, b] : {std::pair{0, 1}, {0, 2}, {1, 2}, {2, 3}, {0, 4}, {1, 4}}) {
    edges.push_back({.from = a, .to = b, .weight = 0.1});
    edges.push_back({.from = b, .to = a, .weight = 0.1});
  }
  const Graph graph = Graph::from_edges(6, edges, std::vector<double>(6, 0.1), "pairs").value();
  EXPECT_EQ(place(cluster, graph).greedy.between_switches, (std::vector<double>{12, 8}));
}

TEST(Placement, SwapsImproveOnGreedyOnThreeLevels) {
  const Cluster cluster = three_levels();
  for (const char* name : {"random_regular:d=3", "random_regular:d=4"}) {
    const Graph graph = shuffled(make_graph(name, 16).value());
    const FoundPlacement found = place(cluster, graph);
    check(cluster, graph, found);
    EXPECT_LT(found.found.us, 0.9 * found.greedy.us) << name;
  }
}

// At equal times fewer messages above, then fewer below.
TEST(Placement, HigherLevelsCountFirst) {
  const PlacementCost cost{.us = 5, .between_switches = {10, 4}};
  EXPECT_TRUE((PlacementCost{.us = 5, .between_switches = {12, 3}}).is_below(cost));
  EXPECT_TRUE((PlacementCost{.us = 5, .between_switches = {9, 4}}).is_below(cost));
  EXPECT_FALSE((PlacementCost{.us = 5, .between_switches = {9, 5}}).is_below(cost));
  EXPECT_FALSE(cost.is_below(cost));
  EXPECT_FALSE((PlacementCost{.us = 6, .between_switches = {0, 0}}).is_below(cost));
}

TEST(Placement, FindsSeatsWhereTheIdentityHasNoWay) {
  const Cluster cluster = bcube_fabric(4, 2);
  const Graph graph = shuffled(*ring_graph(16));
  const FoundPlacement found = place(cluster, graph);
  EXPECT_GT(found.identity.without_way, 0);
  EXPECT_EQ(found.found.without_way, 0);
  check(cluster, graph, found);
}

TEST(Placement, FewerRanksThanSeats) {
  const Cluster cluster = tree({.in_turn = true});
  const Graph graph = *ring_graph(4);
  const FoundPlacement found = place(cluster, graph);
  check(cluster, graph, found);
  EXPECT_EQ(found.found.between_switches, std::vector<double>{0});
}

// Two ranks of a machine share out two interfaces, one has both: spread over the machines, each
// message goes twice as fast as between pairs.
TEST(Placement, FreeSeatsLeaveTheirInterfacesToTheOthers) {
  Cluster cluster = fabric({.machines = 4, .ranks = 2, .rails = 2});
  const Graph graph = *ring_graph(4, RingStyle::next);
  PlacementSearch search;
  search.map = {.policy = RailPolicy::near, .bytes = 1e6};
  search.most_swaps = kSwaps;
  cluster.memory.gbyte_per_s = 1;  // slower than any network
  const auto found = place_ranks(cluster, graph, search);
  ASSERT_TRUE(found.ok());
  check(cluster, graph, *found, search.map);
  EXPECT_DOUBLE_EQ(found->found.us, 40 + 2);
}

TEST(Placement, EqualSeedsGiveEqualPlacementsAndTheSearchCanBeStopped) {
  const Cluster cluster = tree({.in_turn = true});
  const Graph graph = make_graph("random_regular:d=4", 16).value();
  EXPECT_EQ(place(cluster, graph).placement.seat, place(cluster, graph).placement.seat);
  int asked = 0;
  PlacementSearch search;
  search.goes_on = [&asked] { return ++asked < 3; };
  const auto stopped = place_ranks(cluster, graph, search);
  ASSERT_TRUE(stopped.ok());
  EXPECT_EQ(asked, 3);
  EXPECT_LT(stopped->swaps, 1000);
  check(cluster, graph, *stopped);
}

TEST(Placement, AGraphLargerThanTheClusterIsAnError) {
  const auto found = place_ranks(tree({}), *ring_graph(17), {});
  EXPECT_EQ(found.status().to_string(),
            "invalid_argument: 16 x 1 interfaces has room for 16 ranks, not for 17");
}

TEST(Placement, OnlyTheFirstSeatsWhereNoMoreAreAllowed) {
  const Cluster cluster = tree({.in_turn = true});
  const Graph graph = *ring_graph(6);
  PlacementSearch search;
  search.most_swaps = kSwaps;
  search.seats = 8;
  const auto found = place_ranks(cluster, graph, search);
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->is_identity());
  EXPECT_LT(std::ranges::max(found->placement.seat), 8);
  check(cluster, graph, *found);
  search.seats = 5;
  EXPECT_EQ(place_ranks(cluster, graph, search).status().to_string(),
            "invalid_argument: 5 seats are too few for 6 ranks");
}

TEST(Placement, EdgesBetweenSeatsKeepTheirOrder) {
  const Graph graph = *ring_graph(3);
  const std::vector<Edge> edges = edges_between_seats(graph, {{5, 0, 2}});
  const std::vector<int> seat{5, 0, 2};
  ASSERT_EQ(edges.size(), graph.edges().size());
  for (std::size_t e = 0; e < edges.size(); ++e) {
    EXPECT_EQ(edges[e].from, seat[static_cast<std::size_t>(graph.edges()[e].from)]);
    EXPECT_EQ(edges[e].to, seat[static_cast<std::size_t>(graph.edges()[e].to)]);
  }
}

}  // namespace
}  // namespace weft
