// The lines of describe.
#include <gtest/gtest.h>
#include <weft/graph.h>

namespace weft {
namespace {

TEST(Describe, AGraphInLines) {
  EXPECT_EQ(describe(ring_graph(4, RingStyle::next).value()),
            (std::vector<std::string>{
                "ring:style=2: 4 ranks, 4 edges",
                "degrees: in at most 1, out at most 1; regular: yes; undirected: no",
                "strongly connected: yes",
                "row-stochastic: yes",
                "column-stochastic: yes",
                "mixing: sigma2 0.707107, spectral gap 0.292893, rounds to 0.001: 20",
                "rank 0: self 0.5; from 3 (0.5); to 1 (0.5)",
                "rank 1: self 0.5; from 0 (0.5); to 2 (0.5)",
                "rank 2: self 0.5; from 1 (0.5); to 3 (0.5)",
                "rank 3: self 0.5; from 2 (0.5); to 0 (0.5)",
            }));
}

TEST(Describe, SaysWhyAGraphIsNotStochasticAndThatItDoesNotMix) {
  const Graph graph = Graph::from_edges(2, {{0, 1, 0.5}}, {1, 0.5}, "oneway").value();
  const std::vector<std::string> lines = describe(graph);
  EXPECT_EQ(lines[2], "strongly connected: no");
  EXPECT_EQ(lines[4], "column-stochastic: no (column 0 sums to 1.5)");
  EXPECT_EQ(lines[6], "rank 0: self 1; from none; to 1 (0.5)");
}

TEST(Describe, AScheduleByItsSteps) {
  EXPECT_EQ(describe(one_peer_exponential(4).value()).value(),
            (std::vector<std::string>{
                "one_peer_exponential: 4 ranks, period 2",
                "union over a period: 8 edges, strongly connected: yes",
                "mixing over a period: sigma2 0.000000, spectral gap 1.000000, rounds to 0.001: 2",
                "step 0: 0->1 1->2 2->3 3->0",
                "step 1: 0->2 1->3 2->0 3->1",
            }));
  EXPECT_EQ(describe(one_peer_exponential(1).value()).value().back(), "step 0: no edges");
}

}  // namespace
}  // namespace weft
