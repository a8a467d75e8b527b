// Properties: degrees, connectivity, and sums that name the row or column at fault.
#include <gtest/gtest.h>
#include <weft/graph.h>

namespace weft {
namespace {

Graph graph_of(int n, const std::vector<Edge>& edges) {
  return Graph::from_edges(n, edges, std::vector<double>(static_cast<std::size_t>(n), 0.5), "g")
      .value();
}

TEST(Properties, RegularNeedsEqualInAndOutDegrees) {
  EXPECT_TRUE(is_regular(graph_of(3, {{0, 1, 1}, {1, 2, 1}, {2, 0, 1}})));
  EXPECT_FALSE(is_regular(graph_of(3, {{0, 1, 1}, {1, 2, 1}})));
  // Every in-degree is 1, the out-degrees are not equal.
  EXPECT_FALSE(is_regular(graph_of(3, {{0, 1, 1}, {1, 0, 1}, {0, 2, 1}})));
}

TEST(Properties, StrongConnectionNeedsBothDirections) {
  EXPECT_TRUE(is_strongly_connected(graph_of(3, {{0, 1, 1}, {1, 2, 1}, {2, 0, 1}})));
  EXPECT_FALSE(is_strongly_connected(graph_of(3, {{0, 1, 1}, {1, 2, 1}, {2, 1, 1}})));
  EXPECT_FALSE(is_strongly_connected(graph_of(3, {{1, 0, 1}, {1, 2, 1}, {2, 1, 1}})));
  EXPECT_FALSE(is_strongly_connected(graph_of(4, {{0, 1, 1}, {1, 0, 1}, {2, 3, 1}, {3, 2, 1}})));
  EXPECT_TRUE(is_strongly_connected(graph_of(1, {})));
}

TEST(Properties, UndirectedComparesEdgesNotWeights) {
  EXPECT_TRUE(is_undirected(graph_of(2, {{0, 1, 1}, {1, 0, 2}})));
  EXPECT_FALSE(is_undirected(graph_of(3, {{0, 1, 1}, {1, 2, 1}, {2, 0, 1}})));
}

TEST(Properties, DegreesAreTheLargest) {
  const Graph graph = graph_of(4, {{0, 1, 1}, {2, 1, 1}, {3, 1, 1}, {3, 0, 1}});
  EXPECT_EQ(max_in_degree(graph), 3);
  EXPECT_EQ(max_out_degree(graph), 2);
}

TEST(Properties, SumsNameTheFirstRowOrColumnAtFault) {
  const Graph graph = graph_of(3, {{0, 1, 0.5}, {1, 2, 0.5}, {2, 0, 0.5}});
  EXPECT_TRUE(check_doubly_stochastic(graph).ok());
  const Graph off = graph_of(3, {{0, 1, 0.5}, {1, 2, 0.5}, {2, 0, 0.25}});
  EXPECT_EQ(check_row_stochastic(off).text(), "row 0 sums to 0.75");
  EXPECT_EQ(check_row_stochastic(off).rank(), 0);
  EXPECT_EQ(check_column_stochastic(off).text(), "column 2 sums to 0.75");
  EXPECT_EQ(check_doubly_stochastic(off).text(), "row 0 sums to 0.75");
}

TEST(Properties, WeightsRoundedToFloatStillPass) {
  const double third = static_cast<double>(1.0F / 3.0F);
  const Graph graph = Graph::from_matrix(3, std::vector<double>(9, third), "float").value();
  EXPECT_TRUE(is_doubly_stochastic(graph));
}

}  // namespace
}  // namespace weft
