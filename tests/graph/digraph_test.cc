// Graph: what it keeps of the edges it is given, what it refuses and how it says so, equality.
#include <gtest/gtest.h>
#include <weft/graph.h>

#include <limits>

namespace weft {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string error_of(int n, const std::vector<Edge>& edges) {
  const std::vector<double> ones(static_cast<std::size_t>(n), 1);
  return std::string(Graph::from_edges(n, edges, ones, "g").status().text());
}

std::vector<Peer> list(std::span<const Peer> peers) {
  return {peers.begin(), peers.end()};
}

Graph three() {
  return Graph::from_edges(3, {{2, 0, 0.25}, {1, 0, 0.5}, {0, 2, -1}}, {0.25, 1, 2}, "three")
      .value();
}

TEST(Graph, KeepsEdgesByReceiverAndBySenderInRankOrder) {
  const Graph graph = three();
  EXPECT_EQ(graph.size(), 3);
  EXPECT_EQ(graph.edge_count(), 3);
  EXPECT_EQ(graph.name(), "three");
  EXPECT_EQ(list(graph.in_edges(0)), (std::vector<Peer>{{1, 0.5}, {2, 0.25}}));
  EXPECT_EQ(list(graph.in_edges(1)), std::vector<Peer>{});
  EXPECT_EQ(list(graph.out_edges(0)), (std::vector<Peer>{{2, -1}}));
  EXPECT_EQ(list(graph.out_edges(2)), (std::vector<Peer>{{0, 0.25}}));
  EXPECT_EQ(graph.edges(), (std::vector<Edge>{{1, 0, 0.5}, {2, 0, 0.25}, {0, 2, -1}}));
  EXPECT_EQ(graph.self_weight(2), 2);
}

TEST(Graph, WeightTakesReceiverFirst) {
  const Graph graph = three();
  EXPECT_EQ(graph.weight(2, 0), -1);
  EXPECT_EQ(graph.weight(0, 2), 0.25);
  EXPECT_EQ(graph.weight(1, 0), 0);
  EXPECT_EQ(graph.weight(1, 1), 1);
}

TEST(Graph, LocalViewIsOneRanksRowAndColumn) {
  const LocalView view = three().local_view(0);
  EXPECT_EQ(view, (LocalView{0, 3, {{1, 0.5}, {2, 0.25}}, {{2, -1}}, 0.25}));
}

TEST(Graph, ErrorsNameTheEdge) {
  EXPECT_EQ(error_of(8, {{0, 1, 1}, {3, 9, 1}}), "edge 3 -> 9: rank 9 is outside 0…7");
  EXPECT_EQ(error_of(8, {{-1, 2, 1}}), "edge -1 -> 2: rank -1 is outside 0…7");
  EXPECT_EQ(error_of(8, {{5, 3, 1}, {3, 5, 1}, {5, 3, 2}}), "edge 5 -> 3: given twice");
  EXPECT_EQ(error_of(8, {{4, 4, 1}}),
            "edge 4 -> 4: a rank's own weight is its self weight, not an edge");
  EXPECT_EQ(error_of(8, {{4, 5, kNan}}), "edge 4 -> 5: weight nan is not finite");
  EXPECT_EQ(Graph::from_edges(2, {{0, 3, 1}}, {1, 1}, "g").status().code(), Code::invalid_argument);
}

TEST(Graph, ErrorsNameTheSelfWeightAndTheSize) {
  EXPECT_EQ(Graph::from_edges(2, {}, {1, kNan}, "g").status().text(),
            "the self weight of rank 1 is nan, not finite");
  EXPECT_EQ(Graph::from_edges(2, {}, {1}, "g").status().text(),
            "1 self weights were given for 2 ranks");
  EXPECT_EQ(Graph::from_edges(0, {}, {}, "g").status().text(),
            "n = 0: a graph has 1…1048576 ranks");
}

TEST(Graph, DropsEdgesOfWeightZeroButChecksThem) {
  const Graph graph = Graph::from_edges(3, {{0, 1, 0}, {1, 2, 1}}, {1, 1, 1}, "g").value();
  EXPECT_EQ(graph.edges(), (std::vector<Edge>{{1, 2, 1}}));
  EXPECT_EQ(list(graph.out_edges(0)), std::vector<Peer>{});
  EXPECT_EQ(error_of(3, {{0, 1, 0}, {0, 1, 1}}), "edge 0 -> 1: given twice");
}

TEST(Graph, FromMatrixReadsRowsAsReceivers) {
  const Graph graph = Graph::from_matrix(2, {0.5, 0.25, 0, 1}, "m").value();
  EXPECT_EQ(graph.edges(), (std::vector<Edge>{{1, 0, 0.25}}));
  EXPECT_EQ(graph.self_weights(), (std::vector<double>{0.5, 1}));
  EXPECT_EQ(Graph::from_matrix(2, {1, 2, 3}, "m").status().text(),
            "3 weights were given; a matrix of 2 ranks has 4");
}

TEST(Graph, EqualityIsOfEdgesAndWeightsNotNames) {
  const Graph graph = three();
  EXPECT_EQ(graph, Graph::from_edges(3, graph.edges(), graph.self_weights(), "other").value());
  EXPECT_EQ(graph, graph.renamed("other"));
  EXPECT_NE(graph, Graph::from_edges(3, graph.edges(), {0.25, 1, 3}, "three").value());
  std::vector<Edge> edges = graph.edges();
  edges.back().weight = 1;
  EXPECT_NE(graph, Graph::from_edges(3, edges, graph.self_weights(), "three").value());
  edges.pop_back();
  EXPECT_NE(graph, Graph::from_edges(3, edges, graph.self_weights(), "three").value());
  EXPECT_NE(graph, Graph::from_edges(4, graph.edges(), {0.25, 1, 2, 1}, "three").value());
}

TEST(Graph, StaysAGraphWhenMovedFrom) {
  Graph graph = three();
  const Graph taken = std::move(graph);
  EXPECT_EQ(graph, taken);  // NOLINT: that it may be used is the point
}

TEST(Graph, ARankOutsideIsABug) {
  EXPECT_DEATH((void)three().in_edges(3), "a rank outside the graph");
  EXPECT_DEATH((void)three().weight(0, -1), "a rank outside the graph");
}

}  // namespace
}  // namespace weft
