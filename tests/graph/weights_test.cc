// The weight rules: exact weights on a small irregular graph, and the sums each rule promises.
#include <gtest/gtest.h>
#include <weft/graph.h>

namespace weft {
namespace {

// 0 <-> 1, 0 <-> 2, and 2 -> 1 only.
Graph irregular() {
  return Graph::from_edges(3, {{0, 1, 1}, {1, 0, 1}, {0, 2, 1}, {2, 0, 1}, {2, 1, 1}}, {1, 1, 1},
                           "irregular")
      .value();
}

TEST(Weights, UniformIsOneOverInDegreePlusOne) {
  const Graph graph = reweighted(irregular(), WeightRule::uniform).value();
  const Graph expected =
      Graph::from_matrix(3, {1. / 3, 1. / 3, 1. / 3, 1. / 3, 1. / 3, 1. / 3, 0.5, 0, 0.5}, "")
          .value();
  EXPECT_EQ(graph, expected);
  EXPECT_TRUE(is_row_stochastic(graph));
  EXPECT_FALSE(is_column_stochastic(graph));
}

TEST(Weights, PushUniformIsOneOverOutDegreePlusOne) {
  const Graph graph = reweighted(irregular(), WeightRule::push_uniform).value();
  const Graph expected =
      Graph::from_matrix(3, {1. / 3, 0.5, 1. / 3, 1. / 3, 0.5, 1. / 3, 1. / 3, 0, 1. / 3}, "")
          .value();
  EXPECT_EQ(graph, expected);
  EXPECT_TRUE(is_column_stochastic(graph));
  EXPECT_FALSE(is_row_stochastic(graph));
}

TEST(Weights, MetropolisHastingsOnAPath) {
  const Graph path =
      Graph::from_edges(3, {{0, 1, 1}, {1, 0, 1}, {1, 2, 1}, {2, 1, 1}}, {1, 1, 1}, "path").value();
  const Graph graph = reweighted(path, WeightRule::metropolis_hastings).value();
  EXPECT_DOUBLE_EQ(graph.weight(0, 1), 1. / 3);
  EXPECT_DOUBLE_EQ(graph.weight(1, 0), 1. / 3);
  EXPECT_DOUBLE_EQ(graph.weight(0, 0), 2. / 3);
  EXPECT_DOUBLE_EQ(graph.weight(1, 1), 1. / 3);
  EXPECT_EQ(graph.name(), "path");
  EXPECT_TRUE(is_doubly_stochastic(graph));
}

TEST(Weights, MetropolisHastingsNamesTheEdgeWithoutReverse) {
  EXPECT_EQ(reweighted(irregular(), WeightRule::metropolis_hastings).status().text(),
            "edge 2 -> 1: Metropolis-Hastings weights need its reverse edge");
}

TEST(Weights, RulesAreKnownByName) {
  for (const auto rule :
       {WeightRule::uniform, WeightRule::metropolis_hastings, WeightRule::push_uniform}) {
    EXPECT_EQ(weight_rule(name(rule)).value(), rule);
  }
  EXPECT_EQ(weight_rule("even").status().text(),
            "weights 'even': known are uniform, metropolis_hastings, push_uniform");
}

}  // namespace
}  // namespace weft
