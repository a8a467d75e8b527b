// Generators: exact edges and weights at small n from their definitions, and what holds at
// every n.
#include <gtest/gtest.h>
#include <weft/graph.h>

#include <map>
#include <set>
#include <utility>

namespace weft {
namespace {

using Senders = std::vector<std::vector<Rank>>;  // per receiver, ascending

Senders senders(const Graph& graph) {
  Senders result;
  for (Rank to = 0; to < graph.size(); ++to) {
    result.emplace_back();
    for (const Peer& peer : graph.in_edges(to)) result.back().push_back(peer.rank);
  }
  return result;
}

void expect_uniform(const Graph& graph) {
  EXPECT_EQ(graph, reweighted(graph, WeightRule::uniform).value()) << graph.name();
}

void expect_metropolis_hastings(const Graph& graph) {
  EXPECT_EQ(graph, reweighted(graph, WeightRule::metropolis_hastings).value()) << graph.name();
}

TEST(Generators, Exponential) {
  const Graph graph = exponential_graph(6).value();
  EXPECT_EQ(senders(graph),
            (Senders{{2, 4, 5}, {0, 3, 5}, {0, 1, 4}, {1, 2, 5}, {0, 2, 3}, {1, 3, 4}}));
  EXPECT_EQ(graph.weight(0, 2), 0.25);
  EXPECT_EQ(graph.self_weight(0), 0.25);
  expect_uniform(graph);
  EXPECT_EQ(graph, make_graph("ExponentialTwoGraph", 6).value());
}

TEST(Generators, ExponentialOfBaseThreeHasOneThreeNine) {
  EXPECT_EQ(senders(exponential_graph(10, 3).value())[0], (std::vector<Rank>{1, 7, 9}));
  EXPECT_EQ(senders(exponential_graph(9, 3).value())[0], (std::vector<Rank>{6, 8}));
}

TEST(Generators, SymmetricExponential) {
  // n = 12, base 4: d = 1, 4 from the left; n - d = 4, 1, so d = 8, 11 from the right.
  EXPECT_EQ(senders(symmetric_exponential_graph(12).value())[0], (std::vector<Rank>{1, 4, 8, 11}));
  // n = 8: d = 4 is at n/2 and counts once.
  EXPECT_EQ(senders(symmetric_exponential_graph(8).value())[0], (std::vector<Rank>{1, 4, 7}));
  // n = 7: n/2 is 3, so d = 4 counts as 3 from the right, no power of 4; base 2 takes 1, 2, 5, 6.
  EXPECT_EQ(senders(symmetric_exponential_graph(7).value())[0], (std::vector<Rank>{1, 6}));
  EXPECT_EQ(senders(symmetric_exponential_graph(7, 2).value())[0], (std::vector<Rank>{1, 2, 5, 6}));
  expect_uniform(symmetric_exponential_graph(12).value());
}

TEST(Generators, GridHasMetropolisHastingsWeights) {
  const Graph graph = grid_graph(6).value();  // 2 x 3
  EXPECT_EQ(graph.name(), "grid:2x3");
  EXPECT_EQ(senders(graph), (Senders{{1, 3}, {0, 2, 4}, {1, 5}, {0, 4}, {1, 3, 5}, {2, 4}}));
  EXPECT_DOUBLE_EQ(graph.weight(0, 1), 0.25);    // degrees with self 3 and 4
  EXPECT_DOUBLE_EQ(graph.weight(0, 3), 1. / 3);  // 3 and 3
  EXPECT_DOUBLE_EQ(graph.self_weight(0), 1 - 0.25 - 1. / 3);
  EXPECT_DOUBLE_EQ(graph.self_weight(1), 0.25);
  expect_metropolis_hastings(graph);
}

TEST(Generators, GridShapeIsTheNearestToASquare) {
  const std::map<int, std::pair<int, int>> shapes = {{1, {1, 1}},  {2, {1, 2}},  {7, {1, 7}},
                                                     {12, {3, 4}}, {16, {4, 4}}, {18, {3, 6}},
                                                     {24, {4, 6}}};
  for (const auto& [n, shape] : shapes) {
    EXPECT_EQ(grid_shape(n).rows, shape.first) << n;
    EXPECT_EQ(grid_shape(n).columns, shape.second) << n;
  }
  EXPECT_EQ(senders(grid_graph(6, GridShape{3, 2}).value())[0], (std::vector<Rank>{1, 2}));
  EXPECT_EQ(grid_graph(6, GridShape{4, 2}).status().text(), "grid 4x2 does not have n = 6 ranks");
}

TEST(Generators, Star) {
  const Graph graph = star_graph(4, 2).value();
  EXPECT_EQ(senders(graph), (Senders{{2}, {2}, {0, 1, 3}, {2}}));
  EXPECT_EQ(graph.weight(0, 2), 0.25);
  EXPECT_EQ(graph.weight(2, 0), 0.25);
  EXPECT_EQ(graph.self_weight(0), 0.75);
  EXPECT_EQ(graph.self_weight(2), 0.25);
  EXPECT_EQ(star_graph(4, 4).status().text(), "center = 4: outside 0…3");
}

TEST(Generators, Ring) {
  EXPECT_EQ(senders(ring_graph(4).value()), (Senders{{1, 3}, {0, 2}, {1, 3}, {0, 2}}));
  EXPECT_EQ(senders(ring_graph(3, RingStyle::previous).value()), (Senders{{1}, {2}, {0}}));
  EXPECT_EQ(senders(ring_graph(3, RingStyle::next).value()), (Senders{{2}, {0}, {1}}));
  EXPECT_EQ(ring_graph(4).value().weight(0, 1), 1. / 3);
  for (const auto style : {RingStyle::both, RingStyle::previous, RingStyle::next}) {
    EXPECT_EQ(ring_graph(2, style).value(),
              Graph::from_matrix(2, {0.5, 0.5, 0.5, 0.5}, "").value());
  }
}

TEST(Generators, FullyConnected) {
  EXPECT_EQ(fully_connected_graph(3).value(),
            Graph::from_matrix(3, std::vector<double>(9, 1. / 3), "").value());
}

TEST(Generators, Torus) {
  const Graph graph = torus_graph({2, 3}).value();
  EXPECT_EQ(senders(graph),
            (Senders{{1, 2, 3}, {0, 2, 4}, {0, 1, 5}, {0, 4, 5}, {1, 3, 5}, {2, 3, 4}}));
  expect_uniform(graph);
  EXPECT_EQ(senders(torus_graph({3, 3, 3}).value())[0], (std::vector<Rank>{1, 2, 3, 6, 9, 18}));
  EXPECT_EQ(torus_graph({5}).value(), ring_graph(5).value());
  EXPECT_EQ(torus_graph({2, 2, 2}).value(), hypercube_graph(8).value());
  EXPECT_FALSE(torus_graph({}).ok());
  EXPECT_EQ(torus_graph({4, 0}).status().text(), "0: a dimension is at least 1");
}

TEST(Generators, Hypercube) {
  const Graph graph = hypercube_graph(8).value();
  EXPECT_EQ(senders(graph)[5], (std::vector<Rank>{1, 4, 7}));
  EXPECT_EQ(graph.weight(5, 7), 0.25);
  expect_uniform(graph);
  EXPECT_EQ(hypercube_graph(6).status().text(), "n = 6: a hypercube has a power of two of ranks");
}

TEST(Generators, Bcube) {
  const Graph graph = bcube_graph({.base = 3, .digits = 2}).value();
  EXPECT_EQ(senders(graph)[4], (std::vector<Rank>{1, 3, 5, 7}));
  EXPECT_EQ(senders(graph)[0], (std::vector<Rank>{1, 2, 3, 6}));
  expect_uniform(graph);
  EXPECT_EQ(bcube_graph({.base = 2, .digits = 4}).value(), hypercube_graph(16).value());
  EXPECT_EQ(bcube_graph({.base = 7, .digits = 1}).value(), fully_connected_graph(7).value());
  EXPECT_EQ(bcube_graph({.base = 0, .digits = 1}).status().text(),
            "bcube a = 0, b = 1: a is at least 1, b in 0…20");
  EXPECT_FALSE(bcube_graph({.base = 1000, .digits = 3}).ok());
}

TEST(Generators, Tree) {
  const Graph graph = tree_graph(6).value();
  EXPECT_EQ(senders(graph), (Senders{{1, 2}, {0, 3, 4}, {0, 5}, {1}, {1}, {2}}));
  expect_metropolis_hastings(graph);
  EXPECT_EQ(senders(tree_graph(5, 3).value()), (Senders{{1, 2, 3}, {0, 4}, {0}, {0}, {1}}));
  EXPECT_EQ(tree_graph(5, 0).status().text(), "k = 0: a rank of a tree has at least 1 child");
}

TEST(Generators, RandomRegularIsSimpleRegularAndFixedByItsSeed) {
  for (const auto& [n, degree] :
       std::vector<std::pair<int, int>>{{8, 3}, {9, 4}, {20, 19}, {30, 2}}) {
    const Graph graph = random_regular_graph(n, {.degree = degree, .seed = 7}).value();
    EXPECT_TRUE(is_regular(graph));
    EXPECT_TRUE(is_undirected(graph));
    EXPECT_EQ(max_in_degree(graph), degree);
    EXPECT_EQ(graph, random_regular_graph(n, {.degree = degree, .seed = 7}).value());
    expect_uniform(graph);
  }
  EXPECT_NE(random_regular_graph(30, {.degree = 3, .seed = 1}).value(),
            random_regular_graph(30, {.degree = 3, .seed = 2}).value());
}

TEST(Generators, RandomGraphsAreTheSameOnEveryPlatform) {
  // Written down once; a change here means that ranks built differently disagree about their graph.
  EXPECT_EQ(
      senders(random_regular_graph(8, {.degree = 3, .seed = 7}).value()),
      (Senders{
          {2, 3, 4}, {4, 5, 7}, {0, 3, 6}, {0, 2, 6}, {0, 1, 7}, {1, 6, 7}, {2, 3, 5}, {1, 4, 5}}));
  EXPECT_EQ(senders(erdos_renyi_graph(6, {.probability = 0.5, .seed = 7}).value()),
            (Senders{{3, 5}, {2, 5}, {1}, {0, 4, 5}, {3}, {0, 1, 3}}));
}

TEST(Generators, RandomRegularRefusesWhatCannotExist) {
  EXPECT_EQ(random_regular_graph(5, {.degree = 3}).status().text(),
            "d = 3: a regular graph of n = 5 ranks needs 0 <= d < n and n * d even");
  EXPECT_FALSE(random_regular_graph(4, {.degree = 4}).ok());
  EXPECT_FALSE(random_regular_graph(4, {.degree = -1}).ok());
}

TEST(Generators, ErdosRenyiFollowsItsProbability) {
  EXPECT_EQ(erdos_renyi_graph(9, {.probability = 0}).value().edge_count(), 0);
  EXPECT_EQ(senders(erdos_renyi_graph(9, {.probability = 1}).value()),
            senders(fully_connected_graph(9).value()));
  // 4950 pairs at 0.1: 495 expected, standard deviation 21.
  const auto edges = erdos_renyi_graph(100, {.probability = 0.1, .seed = 3}).value().edge_count();
  EXPECT_NEAR(static_cast<double>(edges) / 2, 495, 4 * 21);
  expect_metropolis_hastings(erdos_renyi_graph(20, {.probability = 0.3, .seed = 3}).value());
  EXPECT_EQ(erdos_renyi_graph(9, {.probability = 1.5}).status().text(),
            "p = 1.5: a probability is in 0…1");
}

TEST(Generators, BadBasesAndSizesAreNamed) {
  EXPECT_EQ(exponential_graph(8, 1).status().text(),
            "base = 1: powers are taken of a base of at least 2");
  EXPECT_EQ(ring_graph(0).status().text(), "n = 0: a graph has 1…1048576 ranks");
  EXPECT_EQ(fully_connected_graph(20'000).status().text(),
            "20000 ranks of degree 19999 exceed 134217728 edges");
}

// Specs that are legal for every n.
const std::vector<std::string> kEveryN = {"exponential",
                                          "exponential:base=4",
                                          "symmetric_exponential",
                                          "symmetric_exponential:base=2",
                                          "grid",
                                          "star",
                                          "ring",
                                          "ring:style=1",
                                          "ring:style=2",
                                          "fully_connected",
                                          "torus",
                                          "tree",
                                          "tree:k=3"};

TEST(Generators, AreDoublyStochasticAndConnectedAtEveryN) {
  for (const std::string& spec : kEveryN) {
    for (int n = 1; n <= 64; ++n) {
      const Graph graph = make_graph(spec, n).value();
      EXPECT_EQ(graph.size(), n);
      EXPECT_TRUE(check_doubly_stochastic(graph, 1e-12).ok()) << spec << " " << n;
      EXPECT_TRUE(is_strongly_connected(graph)) << spec << " " << n;
    }
  }
}

TEST(Generators, OneRankHasNoEdgesAndKeepsItsOwn) {
  std::vector<std::string> specs = kEveryN;
  specs.insert(specs.end(),
               {"hypercube", "bcube", "bcube:a=4", "random_regular:d=4", "erdos_renyi:p=1"});
  for (const std::string& spec : specs) {
    const Graph graph = make_graph(spec, 1).value();
    EXPECT_EQ(graph.edge_count(), 0) << spec;
    EXPECT_EQ(graph.self_weight(0), 1) << spec;
  }
}

TEST(Generators, CirculantsAreRegularAndTheirEdgesFollowTheDefinition) {
  for (int n = 1; n <= 64; ++n) {
    const Graph graph = exponential_graph(n, 3).value();
    EXPECT_TRUE(is_regular(graph));
    std::set<int> powers;
    for (int d = 1; d < n; d *= 3) powers.insert(d);
    for (Rank j = 0; j < n; ++j) {
      for (Rank i = 0; i < n; ++i) {
        if (i == j) continue;
        EXPECT_EQ(graph.weight(i, j) != 0, powers.contains((i - j + n) % n)) << n;
      }
    }
  }
}

}  // namespace
}  // namespace weft
