// The limit must compute what the operation computes, and time must be counted as said.
#include "tools/limits/limits.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <thread>

namespace weft {
namespace {

TEST(Spans, RunFromTheFirstBeginToTheLastEnd) {
  const std::array<Laps, 2> ranks{Laps{{{100, 300}, {1000, 1500}}, 0},
                                  Laps{{{50, 200}, {1200, 2000}}, 0}};
  const std::vector<double> spans = spans_us(ranks, 1);
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_DOUBLE_EQ(spans[0], 0.25);
  EXPECT_DOUBLE_EQ(spans[1], 1.0);
  EXPECT_DOUBLE_EQ(spans_us(ranks, 10)[1], 0.1);
}

TEST(Laps, SurviveTheirTrip) {
  const Laps laps{{{1, 2}, {3, 4}}, 5};
  const Result<Laps> back = laps_from_bytes(to_bytes(laps));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->cpu_ns, 5);
  ASSERT_EQ(back->laps.size(), 2U);
  EXPECT_EQ(back->laps[1].end_ns, 4);
  EXPECT_EQ(laps_from_bytes("torn").status().code(), Code::mismatch);
}

// Machine 1, of ranks 1 and 3, averages itself and machine 0 of rank 0; machine 2 has no part.
TEST(Recipes, OfMachinesCountEachRankForItsShare) {
  const Recipe machines{{{0, 0.25}, {1, 0.5}}, {}, false, 1};
  const Recipe ranks = over_machines(machines, {0, 1, 2, 1});
  ASSERT_EQ(ranks.sources.size(), 3U);
  const std::array<std::pair<Rank, double>, 3> expected{{{0, 0.25}, {1, 0.25}, {3, 0.25}}};
  for (std::size_t k = 0; k < expected.size(); ++k) {
    EXPECT_EQ(ranks.sources[k].rank, expected[k].first);
    EXPECT_DOUBLE_EQ(ranks.sources[k].weight, expected[k].second);
  }
}

TEST(Quantile, InterpolatesAndTakesNothing) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(quantile({1, 2, 3}, 0), 1);
  EXPECT_DOUBLE_EQ(quantile({1, 2, 3}, 1), 3);
  EXPECT_DOUBLE_EQ(median({}), 0);
}

TEST(Meeting, NobodyPassesBeforeAllAreThere) {
  constexpr int kRanks = 3;
  Meeting::Shared shared{};
  std::atomic<int> arrived{0};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&] {
      Meeting meeting(shared, kRanks, true);
      for (int turn = 1; turn <= 1000; ++turn) {
        ++arrived;
        ASSERT_TRUE(meeting.wait().ok());
        EXPECT_GE(arrived.load(), turn * kRanks);
        ASSERT_TRUE(meeting.wait().ok());
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(Meeting, WhoGivesUpIsNamed) {
  Meeting::Shared shared{};
  Meeting one(shared, 2, true);
  Meeting(shared, 2, true).abandon(1);
  Meeting(shared, 2, true).abandon(0);  // the first is the cause of the others
  const Status status = one.wait();
  EXPECT_EQ(status.code(), Code::peer_left);
  EXPECT_EQ(status.rank(), 1);
}

// The factors of nccl-tests' doc/PERFORMANCE.md, and of its gather.cu, scatter.cu and alltoall.cu.
// There the size of an operation on blocks is that of all blocks together.
TEST(MeasuredOperations, BandwidthsCountAsInNcclTests) {
  constexpr double kBytes = 1000;
  struct Case {
    Collective operation;
    double size, factor;  // of one rank's input or block; of algbw
  };
  for (const int n : {1, 2, 3, 8}) {
    const double others = n - 1.0;
    for (const Case& c :
         std::initializer_list<Case>{{Collective::allreduce, 1, 2 * others / n},
                                     {Collective::reduce_scatter, 1.0 * n, others / n},
                                     {Collective::allgather, 1.0 * n, others / n},
                                     {Collective::broadcast, 1, 1},
                                     {Collective::reduce, 1, 1},
                                     {Collective::alltoall, 1.0 * n, others / n},
                                     {Collective::gather, 1.0 * n, others / n},
                                     {Collective::scatter, 1.0 * n, others / n}}) {
      const CountedBytes counted = counted_bytes(c.operation, kBytes, n, 0);
      EXPECT_DOUBLE_EQ(counted.algorithm, kBytes * c.size) << name(c.operation) << " " << n;
      EXPECT_DOUBLE_EQ(counted.bus, counted.algorithm * c.factor) << name(c.operation) << " " << n;
    }
  }
}

// A rank takes in a message of each in-neighbor.
TEST(MeasuredOperations, BandwidthsOfNeighborsCountTheLargestDegree) {
  for (const Collective operation : {Collective::neighbor_allreduce, Collective::neighbor_allgather,
                                     Collective::hierarchical_neighbor_allreduce}) {
    EXPECT_EQ(counted_bytes(operation, 1000, 16, 2.5).algorithm, 1000);
    EXPECT_EQ(counted_bytes(operation, 1000, 16, 2.5).bus, 2500);
  }
  EXPECT_EQ(counted_bytes(Collective::barrier, 0, 16, 0).bus, 0);
}

TEST(MeasuredOperations, NamesGoBothWays) {
  for (const char* word :
       {"neighbor_allreduce", "neighbor_allgather", "allreduce", "broadcast", "barrier",
        "allgather", "reduce_scatter", "reduce", "gather", "scatter", "alltoall"}) {
    const Result<Collective> found = measured_operation(word);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(name(*found), word);
  }
  EXPECT_EQ(measured_operation("nonsense").status().code(), Code::invalid_argument);
}

// Ranks as threads that see each other's vectors; `foreign`: only by system call.
struct Case {
  Collective what;
  std::size_t count;
  bool foreign;
};

class Floors : public testing::TestWithParam<Case> {
 protected:
  static constexpr int kRanks = 4;

  [[nodiscard]] static float value(Rank rank, std::size_t i) {
    return static_cast<float>(rank * 10) + static_cast<float>(i % 7);
  }

  [[nodiscard]] static float expected(const Recipe& recipe, std::size_t i, std::size_t count) {
    if (recipe.concatenates) return value(recipe.sources[i / count].rank, i % count);
    double sum = 0;
    for (const Recipe::Source& source : recipe.sources)
      sum += source.weight * double{value(source.rank, i)};
    return static_cast<float>(sum);
  }
};

TEST_P(Floors, ComputeTheOperation) {
  const auto [what, count, foreign] = GetParam();
  const Result<Graph> graph = make_graph("exponential", kRanks);
  ASSERT_TRUE(graph.ok());
  std::vector<FloorBoard> boards(kRanks);
  std::vector<std::vector<float>> inputs(kRanks, std::vector<float>(count));
  std::vector<std::vector<float>> outputs(kRanks, std::vector<float>(count * kRanks));
  Meeting::Shared shared{};
  std::vector<std::thread> ranks;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank, what = what, count = count, foreign = foreign] {
      Floor::Places places;
      for (Rank other = 0; other < kRanks; ++other) {
        const auto at = static_cast<std::size_t>(other);
        const auto see = [&](void* memory, bool mapped) {
          return Sight{mapped ? static_cast<std::byte*>(memory) : nullptr,
                       reinterpret_cast<std::uintptr_t>(memory), getpid()};
        };
        places.boards.push_back(see(&boards[at], true));
        places.inputs.push_back(see(inputs[at].data(), !foreign || other == rank));
        places.outputs.push_back(see(outputs[at].data(), !foreign || other == rank));
      }
      const auto own = static_cast<std::size_t>(rank);
      for (std::size_t i = 0; i < count; ++i) inputs[own][i] = value(rank, i);
      Meeting meeting(shared, kRanks, true);
      ASSERT_TRUE(meeting.wait().ok());
      const Recipe made = recipe(what, *graph, rank);
      Floor floor({what, DataType::f32, count, rank}, made, places, meeting);
      for (const bool streaming : {false, true}) ASSERT_TRUE(floor.run(3, streaming).ok());
      ASSERT_TRUE(meeting.wait().ok());
      for (std::size_t i = 0; i < output_count(made, count); ++i) {
        ASSERT_FLOAT_EQ(outputs[own][i], expected(made, i, count))
            << "rank " << rank << " element " << i;
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

INSTANTIATE_TEST_SUITE_P(Limits, Floors,
                         testing::Values(Case{Collective::neighbor_allreduce, 1, false},
                                         Case{Collective::neighbor_allreduce, 700, false},
                                         Case{Collective::neighbor_allreduce, 100'003, false},
                                         Case{Collective::neighbor_allreduce, 100'003, true},
                                         Case{Collective::neighbor_allgather, 5, false},
                                         Case{Collective::neighbor_allgather, 100'003, true},
                                         Case{Collective::allreduce, 9, false},
                                         Case{Collective::allreduce, 100'003, false},
                                         Case{Collective::allreduce, 100'003, true},
                                         Case{Collective::broadcast, 3, false},
                                         Case{Collective::broadcast, 100'003, true},
                                         Case{Collective::barrier, 0, false},
                                         Case{Collective::allgather, 3, false},
                                         Case{Collective::allgather, 100'003, true}));

}  // namespace
}  // namespace weft
