// Graphs and schedules by name: what the text means, and complaints that name the bad part of it.
#include <gtest/gtest.h>
#include <weft/graph.h>

namespace weft {
namespace {

std::string error_of(std::string_view spec, int n) {
  return std::string(make_graph(spec, n).status().text());
}

TEST(Names, ArgumentsReachTheGenerators) {
  EXPECT_EQ(make_graph("exponential:base=4", 20).value(), exponential_graph(20, 4).value());
  EXPECT_EQ(make_graph("symmetric_exponential:2", 20).value(),
            symmetric_exponential_graph(20, 2).value());
  EXPECT_EQ(make_graph("ring:style=1", 5).value(), ring_graph(5, RingStyle::previous).value());
  EXPECT_EQ(make_graph("star:center=2", 5).value(), star_graph(5, 2).value());
  EXPECT_EQ(make_graph("grid:2x8", 16).value(), grid_graph(16, GridShape{2, 8}).value());
  EXPECT_EQ(make_graph("torus:4x4", 16).value(), torus_graph({4, 4}).value());
  EXPECT_EQ(make_graph("torus:dims=2x2x4", 16).value(), torus_graph({2, 2, 4}).value());
  EXPECT_EQ(make_graph("bcube:a=4,b=2", 16).value(), bcube_graph({.base = 4, .digits = 2}).value());
  EXPECT_EQ(make_graph("bcube:a=4", 16).value(), bcube_graph({.base = 4, .digits = 2}).value());
  EXPECT_EQ(make_graph("tree:k=3", 9).value(), tree_graph(9, 3).value());
  EXPECT_EQ(make_graph("random_regular:d=4,seed=7", 9).value(),
            random_regular_graph(9, {.degree = 4, .seed = 7}).value());
  EXPECT_EQ(make_graph("erdos_renyi:p=0.25,seed=7", 9).value(),
            erdos_renyi_graph(9, {.probability = 0.25, .seed = 7}).value());
  EXPECT_EQ(make_graph("ring:weights=push_uniform,style=2", 5).value(),
            make_graph("ring:style=2,weights=push_uniform", 5).value());
}

TEST(Names, BlueFogsNamesAreKnown) {
  EXPECT_EQ(make_graph("ExponentialGraph:base=3", 9).value(), exponential_graph(9, 3).value());
  EXPECT_EQ(make_graph("SymmetricExponentialGraph", 9).value(),
            symmetric_exponential_graph(9).value());
  EXPECT_EQ(make_graph("MeshGrid2DGraph", 9).value(), grid_graph(9).value());
  EXPECT_EQ(make_graph("StarGraph:center=1", 9).value(), star_graph(9, 1).value());
  EXPECT_EQ(make_graph("RingGraph:2", 9).value(), ring_graph(9, RingStyle::next).value());
  EXPECT_EQ(make_graph("FullyConnectedGraph", 9).value(), fully_connected_graph(9).value());
}

TEST(Names, AGraphsNameMakesItAgain) {
  for (const char* spec :
       {"exponential", "symmetric_exponential", "grid", "star:center=3", "ring:1",
        "fully_connected", "torus", "hypercube", "bcube:a=4", "tree:3", "random_regular:d=5,seed=3",
        "erdos_renyi:p=0.3,seed=9", "hypercube:weights=push_uniform", "tree:weights=uniform"}) {
    const Graph graph = make_graph(spec, 16).value();
    EXPECT_EQ(make_graph(graph.name(), 16).value(), graph) << graph.name();
  }
}

TEST(Names, ErrorsNameWhatIsWrong) {
  EXPECT_EQ(error_of("expo", 8),
            "unknown graph 'expo'; known are: exponential, exponential_two, symmetric_exponential, "
            "grid, star, ring, fully_connected, torus, hypercube, bcube, tree, random_regular, "
            "erdos_renyi");
  EXPECT_EQ(error_of("ring:color=1", 8),
            "ring: unknown argument 'color=1'; known are: style, weights");
  EXPECT_EQ(error_of("ring:style=one", 8), "ring: 'style=one' cannot be read");
  EXPECT_EQ(error_of("ring:style=1x", 8), "ring: 'style=1x' cannot be read");
  EXPECT_EQ(error_of("ring:style=3", 8),
            "ring: style=3 is none of 0 (both), 1 (previous), 2 (next)");
  EXPECT_EQ(error_of("ring:1,style=2", 8), "ring: 'style' is given twice");
  EXPECT_EQ(error_of("bcube:4,2", 16), "bcube: unknown argument '2'; known are: a, b, weights");
  EXPECT_EQ(error_of("grid:4", 16), "grid: shape 4 is not ROWSxCOLUMNS");
  EXPECT_EQ(error_of("grid:4x", 16), "grid: 'shape=4x' cannot be read");
  EXPECT_EQ(error_of("torus:4x4", 15), "torus:4x4 has 16 ranks, not n = 15");
  EXPECT_EQ(error_of("bcube:a=4", 15), "bcube:a=4,b=2 has 16 ranks, not n = 15");
  EXPECT_EQ(error_of("random_regular", 8), "random_regular: needs 'd='");
  EXPECT_EQ(error_of("random_regular:d=3,seed=-1", 8), "random_regular: 'seed=-1' cannot be read");
  EXPECT_EQ(error_of("erdos_renyi:p=half", 8), "erdos_renyi: 'p=half' cannot be read");
  EXPECT_EQ(error_of("ring:weights=even", 8),
            "weights 'even': known are uniform, metropolis_hastings, push_uniform");
  EXPECT_FALSE(make_graph("", 8).ok());
}

TEST(Names, EveryListedGraphCanBeMade) {
  for (const NamedKind& kind : graph_names()) {
    std::string spec(kind.name);
    if (kind.name == "random_regular") spec += ":d=4";
    if (kind.name == "erdos_renyi") spec += ":p=0.5";
    EXPECT_TRUE(make_graph(spec, 16).ok()) << spec;
    EXPECT_FALSE(kind.description.empty());
    if (!kind.alias.empty()) {
      EXPECT_EQ(make_graph(kind.alias, 16).value(), make_graph(kind.name, 16).value());
    }
  }
}

TEST(Names, SchedulesByName) {
  const Schedule on_ring = make_schedule("one_peer:ring:style=1", 5).value();
  EXPECT_EQ(on_ring.name(), "one_peer:ring:style=1");
  EXPECT_EQ(on_ring.local_view(0, 0).out, (std::vector<Peer>{{4, 0.5}}));
  EXPECT_EQ(make_schedule("inner_outer_ring:local=4", 8).value().local_view(0, 0).out[0].rank, 4);
  EXPECT_EQ(make_schedule("inner_outer_exponential:local=4", 8).value().name(),
            "inner_outer_exponential:local=4");
  EXPECT_EQ(make_schedule("inner_outer_ring:local=3", 8).status().text(),
            "local=3 does not divide n = 8");
  EXPECT_EQ(make_schedule("inner_outer_ring", 8).status().text(),
            "inner_outer_ring: needs 'local='");
  EXPECT_EQ(make_schedule("one_peer", 8).status().text(),
            "one_peer: needs a graph, as in one_peer:exponential");
  EXPECT_EQ(make_schedule("two_peer", 8).status().text(),
            "unknown schedule 'two_peer'; known are: one_peer, one_peer_exponential, "
            "two_peer_exponential, undirected_one_peer, machine_exponential, inner_outer_ring, "
            "inner_outer_exponential");
  for (const NamedKind& kind : schedule_names()) {
    std::string spec(kind.name);
    if (kind.arguments == "GRAPH") spec += ":tree";
    if (kind.arguments == "local=…") spec += ":local=4";
    const Result<Schedule> schedule = make_schedule(spec, 16);
    ASSERT_TRUE(schedule.ok()) << spec;
    EXPECT_TRUE(make_schedule(schedule->name(), 16).ok()) << schedule->name();
  }
}

}  // namespace
}  // namespace weft
