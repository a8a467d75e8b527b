// Schedules: exact peers from their formulas, and consistency, sums, period and union at many
// sizes.
#include <gtest/gtest.h>
#include <weft/graph.h>

#include <bit>
#include <cmath>
#include <optional>

namespace weft {
namespace {

// Whom each rank sends to at `step`; kNoRank for none.
std::vector<Rank> targets(const Schedule& schedule, std::uint64_t step) {
  std::vector<Rank> result;
  for (Rank r = 0; r < schedule.size(); ++r) {
    const LocalView view = schedule.local_view(step, r);
    result.push_back(view.out.empty() ? kNoRank : view.out.front().rank);
  }
  return result;
}

bool union_is_strongly_connected(const Schedule& schedule) {
  return is_strongly_connected(union_graph(schedule).value());
}

// Consistent at every step, columns summing to 1, and the same again one period later.
void expect_sound(const Schedule& schedule) {
  ASSERT_TRUE(check_consistent(schedule).ok()) << check_consistent(schedule).to_string();
  for (std::uint64_t step = 0; step < schedule.cover(); ++step) {
    const Graph graph = step_graph(schedule, step).value();
    EXPECT_TRUE(check_column_stochastic(graph, 1e-12).ok()) << graph.name();
    EXPECT_EQ(graph, step_graph(schedule, step + schedule.period()).value()) << graph.name();
  }
}

void expect_doubly_stochastic(const Schedule& schedule) {
  for (std::uint64_t step = 0; step < schedule.period(); ++step) {
    EXPECT_TRUE(check_doubly_stochastic(step_graph(schedule, step).value(), 1e-12).ok())
        << schedule.name() << " " << step;
  }
}

TEST(OnePeer, TakesOutNeighborsClockwiseFromTheRank) {
  // 0 -> 1, 0 -> 3; 1 -> 0, 1 -> 2; 2 -> 0; 3 has none.
  const Graph graph = Graph::from_edges(4, {{0, 1, 1}, {0, 3, 1}, {1, 0, 1}, {1, 2, 1}, {2, 0, 1}},
                                        {1, 1, 1, 1}, "g")
                          .value();
  const Schedule schedule = one_peer(graph);
  EXPECT_EQ(targets(schedule, 0), (std::vector<Rank>{1, 2, 0, kNoRank}));
  EXPECT_EQ(targets(schedule, 1), (std::vector<Rank>{3, 0, 0, kNoRank}));
  EXPECT_EQ(targets(schedule, 2), targets(schedule, 0));
  EXPECT_EQ(schedule.period(), 2U);
  EXPECT_EQ(schedule.local_view(1, 0), (LocalView{0, 4, {{1, 0.5}, {2, 0.5}}, {{3, 0.5}}, 0.5}));
  EXPECT_EQ(schedule.local_view(1, 3), (LocalView{3, 4, {{0, 0.5}}, {}, 1}));
  expect_sound(schedule);
}

TEST(OnePeer, OnTheExponentialGraphIsOnePeerExponential) {
  for (int n = 1; n <= 40; ++n) {
    const Schedule on_graph = one_peer(exponential_graph(n).value());
    const Schedule formula = one_peer_exponential(n).value();
    EXPECT_EQ(on_graph.period(), formula.period());
    for (std::uint64_t step = 0; step < formula.period(); ++step) {
      EXPECT_EQ(step_graph(on_graph, step).value(), step_graph(formula, step).value()) << n;
    }
  }
}

TEST(OnePeer, IrregularGraphsAreCoveredByTheLargestDegree) {
  const Graph graph = star_graph(6).value();
  const Schedule schedule = one_peer(graph);
  EXPECT_EQ(schedule.period(), 5U);
  EXPECT_EQ(targets(schedule, 2), (std::vector<Rank>{3, 0, 0, 0, 0, 0}));
  EXPECT_EQ(union_graph(schedule).value(), reweighted(graph, WeightRule::uniform).value());
  EXPECT_EQ(schedule.local_view(2, 0).in.size(), 5U);
  for (int n = 1; n <= 40; ++n) {
    const Graph random = erdos_renyi_graph(n, {.probability = 0.3, .seed = 5}).value();
    expect_sound(one_peer(random));
    EXPECT_EQ(union_graph(one_peer(random)).value(),
              reweighted(random, WeightRule::uniform).value());
  }
}

TEST(OnePeer, PeriodIsTheLeastCommonMultipleOfTheDegreesOrSaturates) {
  EXPECT_EQ(one_peer(grid_graph(9).value()).period(), 12U);  // degrees 2, 3, 4
  // Rank r sends to r others, so the degrees are 0…63; their least common multiple exceeds 64 bits.
  std::vector<Edge> edges;
  for (Rank from = 0; from < 64; ++from) {
    for (Rank to = 0; to < from; ++to) edges.push_back({from, to, 1});
  }
  const Schedule long_one =
      one_peer(Graph::from_edges(64, edges, std::vector<double>(64, 1), "stairs").value());
  EXPECT_EQ(long_one.period(), ~std::uint64_t{0});
  EXPECT_EQ(long_one.cover(), 63U);
  EXPECT_TRUE(check_consistent(long_one).ok());
  EXPECT_FALSE(mixing(long_one).ok());
}

TEST(Exponential, OnePeerHops) {
  const Schedule schedule = one_peer_exponential(6).value();  // hops 1, 2, 4
  EXPECT_EQ(schedule.period(), 3U);
  EXPECT_EQ(targets(schedule, 0), (std::vector<Rank>{1, 2, 3, 4, 5, 0}));
  EXPECT_EQ(targets(schedule, 5), (std::vector<Rank>{4, 5, 0, 1, 2, 3}));
  EXPECT_EQ(schedule.local_view(1, 0), (LocalView{0, 6, {{4, 0.5}}, {{2, 0.5}}, 0.5}));
}

TEST(Exponential, TwoPeerHops) {
  const Schedule schedule = two_peer_exponential(8).value();  // hops 1 2, 2 4, 4 1
  constexpr double kThird = 1. / 3;
  EXPECT_EQ(schedule.local_view(0, 0),
            (LocalView{0, 8, {{6, kThird}, {7, kThird}}, {{1, kThird}, {2, kThird}}, kThird}));
  EXPECT_EQ(schedule.local_view(5, 6),
            (LocalView{6, 8, {{2, kThird}, {5, kThird}}, {{2, kThird}, {7, kThird}}, kThird}));
  EXPECT_EQ(two_peer_exponential(2).value().local_view(3, 0),
            (LocalView{0, 2, {{1, 0.5}}, {{1, 0.5}}, 0.5}));
}

TEST(Exponential, UndirectedPairs) {
  const Schedule schedule = undirected_one_peer(8).value();  // hops 1, 3, 7 from odd ranks
  EXPECT_EQ(schedule.period(), 3U);
  EXPECT_EQ(targets(schedule, 0), (std::vector<Rank>{7, 2, 1, 4, 3, 6, 5, 0}));
  EXPECT_EQ(targets(schedule, 1), (std::vector<Rank>{5, 4, 7, 6, 1, 0, 3, 2}));
  EXPECT_EQ(targets(schedule, 2), (std::vector<Rank>{1, 0, 3, 2, 5, 4, 7, 6}));
  EXPECT_EQ(targets(undirected_one_peer(2).value(), 0), (std::vector<Rank>{1, 0}));
  EXPECT_EQ(undirected_one_peer(5).status().text(),
            "n = 5: undirected one-peer pairs odd with even ranks, n must be even");
}

TEST(Exponential, MachinesHop) {
  EXPECT_EQ(machine_exponential(5).value().period(), 3U);  // floor(log2 4) + 1
  EXPECT_EQ(machine_exponential(4).value().period(), 2U);  // floor(log2 3) + 1
  EXPECT_EQ(targets(machine_exponential(5).value(), 2), (std::vector<Rank>{4, 0, 1, 2, 3}));
  EXPECT_EQ(targets(machine_exponential(2).value(), 7), (std::vector<Rank>{1, 0}));
  EXPECT_EQ(targets(machine_exponential(1).value(), 7), (std::vector<Rank>{kNoRank}));
}

TEST(InnerOuter, RingSkipsTheRankOutside) {
  const Schedule schedule = inner_outer_ring({.machines = 2, .local_size = 3}).value();
  EXPECT_EQ(schedule.period(), 3U);
  EXPECT_EQ(targets(schedule, 0), (std::vector<Rank>{3, 2, 1, 0, 5, 4}));
  EXPECT_EQ(targets(schedule, 1), (std::vector<Rank>{2, 4, 0, 5, 1, 3}));
  EXPECT_EQ(schedule.local_view(4, 0), (LocalView{0, 6, {{2, 0.5}}, {{2, 0.5}}, 0.5}));
}

TEST(InnerOuter, ExponentialHopsAreLongerPastTheRankOutside) {
  // 5 machines of 6: outer hops 1, 2, 4; inner hops 1, 2, 4 (floor(log2 4) + 1 = 3).
  const Schedule schedule = inner_outer_exponential({.machines = 5, .local_size = 6}).value();
  EXPECT_EQ(schedule.period(), 6U);
  const std::vector<Rank> first =
      targets(schedule, 1);  // local 1 outside by 2 machines, inner hop 2
  EXPECT_EQ((std::vector<Rank>(first.begin(), first.begin() + 6)),
            (std::vector<Rank>{3, 13, 4, 5, 0, 2}));
  EXPECT_EQ(targets(schedule, 2)[2 + 6 * 4], 2 + 6 * 3);  // machine 4 + 4 mod 5 = 3
}

TEST(InnerOuter, OneMachineRestsTheRankOutside) {
  const Schedule schedule = inner_outer_ring({.machines = 1, .local_size = 3}).value();
  EXPECT_EQ(targets(schedule, 0), (std::vector<Rank>{kNoRank, 2, 1}));
  EXPECT_EQ(schedule.local_view(0, 0), (LocalView{0, 3, {}, {}, 1}));
  EXPECT_TRUE(union_is_strongly_connected(schedule));
}

TEST(InnerOuter, NeedsThreeRanksPerMachine) {
  EXPECT_EQ(inner_outer_ring({.machines = 4, .local_size = 2}).status().text(),
            "inner_outer_ring of 4 machines x 2 ranks: needs at least 1 machine and 3 ranks each");
  EXPECT_FALSE(inner_outer_exponential({.machines = 0, .local_size = 3}).ok());
  EXPECT_FALSE(inner_outer_exponential({.machines = 1 << 15, .local_size = 1 << 15}).ok());
}

TEST(Schedules, AreSoundAtEverySize) {
  for (int n = 1; n <= 64; ++n) {
    for (const char* spec : {"one_peer_exponential", "two_peer_exponential", "undirected_one_peer",
                             "machine_exponential"}) {
      if (n > 1 && n % 2 == 1 && std::string_view(spec) == "undirected_one_peer") continue;
      const Schedule schedule = make_schedule(spec, n).value();
      expect_sound(schedule);
      expect_doubly_stochastic(schedule);
      EXPECT_TRUE(union_is_strongly_connected(schedule)) << spec << " " << n;
    }
  }
}

TEST(Schedules, InnerOuterIsSoundForEveryShape) {
  for (int machines = 1; machines <= 9; ++machines) {
    for (int local_size = 3; local_size <= 9; ++local_size) {
      for (const auto& made : {inner_outer_ring({machines, local_size}),
                               inner_outer_exponential({machines, local_size})}) {
        expect_sound(made.value());
        expect_doubly_stochastic(made.value());
        EXPECT_TRUE(union_is_strongly_connected(made.value()))
            << made->name() << " " << machines << " x " << local_size;
      }
    }
  }
}

TEST(Schedules, OneRankHasNoPeer) {
  for (const char* spec :
       {"one_peer:ring", "one_peer_exponential", "two_peer_exponential", "undirected_one_peer",
        "machine_exponential", "inner_outer_ring:local=1"}) {
    const Schedule schedule = make_schedule(spec, 1).value();
    EXPECT_EQ(schedule.local_view(3, 0), (LocalView{0, 1, {}, {}, 1})) << spec;
    EXPECT_EQ(schedule.period(), 1U);
  }
}

TEST(Schedules, MillionsOfStepsAreNoDifferent) {
  const Schedule schedule = one_peer_exponential(8).value();
  EXPECT_EQ(schedule.local_view(3'000'000'000'001, 2), schedule.local_view(1, 2));
}

Schedule broken(const std::function<void(LocalView&)>& change) {
  return Schedule({.name = "broken", .size = 3}, [change](std::uint64_t, Rank rank) {
    LocalView view = ring_graph(3, RingStyle::next).value().local_view(rank);
    if (rank == 1) change(view);
    return view;
  });
}

TEST(Schedules, ContradictionsNameTheEdge) {
  EXPECT_TRUE(check_consistent(broken([](LocalView&) {})).ok());
  const Status lost = check_consistent(broken([](LocalView& view) { view.in.clear(); }));
  EXPECT_EQ(lost.to_string(), "mismatch: step 0: edge 0 -> 1 is sent but not received");
  EXPECT_EQ(check_consistent(broken([](LocalView& view) { view.out.clear(); })).text(),
            "step 0: edge 1 -> 2 is received but not sent");
  EXPECT_EQ(check_consistent(broken([](LocalView& view) { view.in[0].weight = 0.25; })).text(),
            "step 0: edge 0 -> 1 is sent with weight 0.5 but received with 0.25");
}

}  // namespace
}  // namespace weft
