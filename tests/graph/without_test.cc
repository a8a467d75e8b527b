// Graphs without some of their ranks: the weights that are promised, and that everybody is still reached.
#include <gtest/gtest.h>
#include <weft/graph.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace weft {
namespace {

std::vector<Rank> others(int n, const std::vector<Rank>& gone) {
  std::vector<Rank> left;
  for (Rank rank = 0; rank < n; ++rank)
    if (std::ranges::find(gone, rank) == gone.end()) left.push_back(rank);
  return left;
}

Graph left_of(const Graph& graph, const std::vector<Rank>& gone) {
  return among(without(graph, gone).value(), others(graph.size(), gone)).value();
}

TEST(Without, NeighborsOfARankInARingMeet) {
  const Graph graph = without(ring_graph(6).value(), std::vector<Rank>{4}).value();
  EXPECT_DOUBLE_EQ(graph.weight(5, 3), 1. / 3);
  EXPECT_DOUBLE_EQ(graph.weight(3, 5), 1. / 3);
  EXPECT_TRUE(graph.in_edges(4).empty());
  EXPECT_TRUE(graph.out_edges(4).empty());
  EXPECT_EQ(graph.self_weight(4), 1);
  EXPECT_EQ(graph.name(), "ring:style=0 without 4");
  EXPECT_EQ(left_of(ring_graph(6).value(), {4}), ring_graph(5).value());
}

// Any ranks of any graph that is doubly stochastic.
TEST(Without, DoublyStochasticGraphsStayThatAndConnected) {
  std::mt19937 random(5);
  for (const char* const spec : {"exponential", "ring", "ring:style=1", "grid", "star",
                                 "fully_connected", "symmetric_exponential"}) {
    for (int round = 0; round < 20; ++round) {
      const Graph graph = make_graph(spec, 16).value();
      if (!is_doubly_stochastic(graph)) break;
      std::vector<Rank> all(16);
      std::iota(all.begin(), all.end(), 0);
      std::ranges::shuffle(all, random);
      all.resize(1 + random() % 12);
      const Graph left = left_of(graph, all);
      EXPECT_TRUE(check_doubly_stochastic(left, 1e-9).ok()) << left.name();
      EXPECT_TRUE(is_strongly_connected(left)) << left.name();
    }
  }
}

TEST(Without, ARankHasAsManyNeighborsAsBefore) {
  const Graph graph = left_of(exponential_graph(64).value(), {7, 20, 21, 50});
  EXPECT_LE(max_in_degree(graph), 8);
  EXPECT_GT(mixing(graph).spectral_gap, 0.9 * mixing(exponential_graph(64).value()).spectral_gap);
}

// New edges 4 -> 1 and 2 -> 3 would part the two circles.
TEST(Without, CirclesThatMetInARankStayJoined) {
  // 0 -> 1 -> 4 -> 0 and 0 -> 3 -> 2 -> 0.
  const std::vector<Edge> edges = {{0, 1, 0.25}, {1, 4, 0.5}, {4, 0, 0.25},
                                   {0, 3, 0.25}, {3, 2, 0.5}, {2, 0, 0.25}};
  const Graph circles = Graph::from_edges(5, edges, {0.5, 0.75, 0.5, 0.75, 0.5}, "circles").value();
  ASSERT_TRUE(is_strongly_connected(circles));
  EXPECT_TRUE(is_strongly_connected(left_of(circles, {0})));
}

TEST(Without, RowsKeepTheirSumWhereColumnsHaveNone) {
  const Graph graph = reweighted(make_graph("star", 6).value(), WeightRule::uniform).value();
  ASSERT_FALSE(is_column_stochastic(graph));
  for (const std::vector<Rank>& gone : {std::vector<Rank>{0}, {3}, {1, 5}}) {
    EXPECT_TRUE(check_row_stochastic(left_of(graph, gone), 1e-9).ok());
    EXPECT_TRUE(is_strongly_connected(left_of(graph, gone)));
  }
}

TEST(Without, ColumnsKeepTheirSumWhereRowsHaveNone) {
  const Graph graph = reweighted(make_graph("star", 6).value(), WeightRule::push_uniform).value();
  ASSERT_FALSE(is_row_stochastic(graph));
  for (const std::vector<Rank>& gone : {std::vector<Rank>{0}, {3}, {1, 5}}) {
    EXPECT_TRUE(check_column_stochastic(left_of(graph, gone), 1e-9).ok());
    EXPECT_TRUE(is_strongly_connected(left_of(graph, gone)));
  }
}

TEST(Without, NobodyOrEverybodyMayBeGone) {
  const Graph ring = ring_graph(3).value();
  EXPECT_EQ(without(ring, {}).value(), ring);
  EXPECT_EQ(without(ring, std::vector<Rank>{0, 1, 2}).value().edge_count(), 0);
  EXPECT_EQ(left_of(ring, {0, 1}).edge_count(), 0);
}

TEST(Without, WrongRanksAreNamed) {
  const Graph ring = ring_graph(3).value();
  EXPECT_EQ(without(ring, std::vector<Rank>{3}).status().text(),
            "ring:style=0: rank 3 is outside 0…2");
  EXPECT_EQ(without(ring, std::vector<Rank>{1, 1}).status().text(),
            "ring:style=0: rank 1 is named twice");
  EXPECT_EQ(among(ring, {}).status().text(), "ring:style=0: among no ranks");
}

}  // namespace
}  // namespace weft
