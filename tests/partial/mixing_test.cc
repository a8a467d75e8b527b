// The matrices of groups, and rho of the laws.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <weft/graph.h>

#include <algorithm>
#include <numeric>

#include "scheduler/partial/partial.h"
#include "tests/graph/product.h"

namespace weft {
namespace {

constexpr double kClose = 1e-9;

// F^G: members of the group have the mean of their values, the others keep theirs.
Graph matrix_of(int n, const std::vector<Rank>& group) {
  std::vector<double> matrix(static_cast<std::size_t>(n * n));
  for (Rank i = 0; i < n; ++i) matrix[static_cast<std::size_t>(i * n + i)] = 1;
  for (const Rank i : group) {
    for (const Rank j : group)
      matrix[static_cast<std::size_t>(i * n + j)] = 1.0 / static_cast<double>(group.size());
  }
  return Graph::from_matrix(n, matrix, "F").value();
}

bool has_weight(const Graph& graph, Rank i, Rank j) {
  return graph.weight(i, j) != 0;
}

TEST(GroupMatrix, IsDoublyStochasticAndIdempotent) {
  for (const std::vector<Rank>& group :
       {std::vector<Rank>{3}, {0, 3}, {0, 3, 4}, {0, 1, 2, 3, 4}}) {
    const Graph f = matrix_of(5, group);
    EXPECT_TRUE(is_row_stochastic(f));
    EXPECT_TRUE(is_column_stochastic(f));
    const Graph twice = product(f, f);
    for (Rank i = 0; i < 5; ++i) {
      for (Rank j = 0; j < 5; ++j) EXPECT_NEAR(twice.weight(i, j), f.weight(i, j), kClose);
    }
  }
}

// Approximate group fusion (section 3.2, Figs. 5 and 6).
TEST(GroupMatrix, OfAFusedGroupHasTheNonZerosOfBothOrdersOfItsParts) {
  const Graph fused = matrix_of(5, {0, 3, 4});
  const Graph one = product(matrix_of(5, {0, 3}), matrix_of(5, {3, 4}));
  const Graph other = product(matrix_of(5, {3, 4}), matrix_of(5, {0, 3}));
  for (const Graph* const exact : {&one, &other}) {
    EXPECT_TRUE(is_row_stochastic(*exact));
    EXPECT_TRUE(is_column_stochastic(*exact));
  }
  for (Rank i = 0; i < 5; ++i) {
    for (Rank j = 0; j < 5; ++j) {
      // One order alone lacks the way from one end to the other one.
      EXPECT_EQ(has_weight(fused, i, j), has_weight(one, i, j) || has_weight(other, i, j))
          << i << ", " << j;
    }
  }
  EXPECT_FALSE(one == other);
}

double rho_of(const std::string& law, MachineShape shape) {
  return group_mixing(group_law(law).value(), shape).value().rho;
}

TEST(GroupMixing, OfStaticGroupsIsExact) {
  // Of four iterations one averages all, one pairs, and two do nothing.
  EXPECT_NEAR(rho_of("static", {4, 1}), 0.75, kClose);
  const GroupMixing mixing = group_mixing(group_law("static").value(), {4, 4}).value();
  EXPECT_TRUE(mixing.is_exact);
  EXPECT_EQ(mixing.rounds, 4);
  EXPECT_NEAR(mixing.groups, (5 + 4 + 6 + 4) / 4.0, kClose);
  EXPECT_LT(mixing.rho, 1 - 1e-3);
  EXPECT_TRUE(is_strongly_connected(mixing.mean));
}

TEST(GroupMixing, OfSmartGroupsIsThatOfTheirDivisions) {
  // A random perfect matching of 4 workers: each other one with probability 1/3.
  EXPECT_NEAR(rho_of("smart:2", {1, 4}), 1.0 / 3, kClose);
  // The mean of two phases: {4 heads} and 3 at home, then machines. Two machines differ in nothing but
  // what their heads bring: 7/8 of the difference is left.
  EXPECT_NEAR(rho_of("smart:4", {4, 4}), 0.875, kClose);
}

// The same from the definition: all workers ask in random order, each for a group with random others.
// As all workers are alike, rho is what the trace of W'W has beside the average, over n - 1.
double rho_by_definition(int n, int size) {
  constexpr int kRounds = 1000;
  Draws draws(7);
  double squares = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::vector<double>> w(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < w.size(); ++i) {
      w[i].resize(w.size());
      w[i][i] = 1;
    }
    std::vector<std::size_t> askers(w.size()), others(w.size());
    std::iota(askers.begin(), askers.end(), std::size_t{0});
    others = askers;
    draws.shuffle(std::span(askers));
    for (const std::size_t asker : askers) {
      draws.shuffle(std::span(others));
      std::ranges::stable_partition(others, [&](std::size_t other) { return other == asker; });
      const std::span group = std::span(others).first(static_cast<std::size_t>(size));
      for (std::size_t j = 0; j < w.size(); ++j) {
        double mean = 0;
        for (const std::size_t member : group) mean += w[member][j] / size;
        for (const std::size_t member : group) w[member][j] = mean;
      }
    }
    for (const std::vector<double>& row : w)
      squares += std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
  }
  return (squares / kRounds - 1) / (n - 1);
}

TEST(GroupMixing, OfRandomGroupsIsThatOfTheirDefinition) {
  for (const int size : {2, 3, 5}) {
    constexpr int kRanks = 12;
    const GroupMixing mixing =
        group_mixing({.kind = GroupLaw::Kind::random, .group_size = size}, {3, kRanks / 3}).value();
    EXPECT_FALSE(mixing.is_exact);
    EXPECT_EQ(mixing.rounds, kSampledRounds);
    EXPECT_EQ(mixing.groups, kRanks);
    EXPECT_EQ(mixing.members, size);
    EXPECT_NEAR(mixing.rho, rho_by_definition(kRanks, size), 0.01) << size;
  }
}

TEST(GroupMixing, IsBelowOneWhereverTwoWorkersMeet) {
  for (const char* law : {"random", "pairs", "smart", "static"}) {
    EXPECT_EQ(rho_of(law, {1, 1}), 0) << law;
    for (const MachineShape shape : {MachineShape{2, 1}, {2, 4}, {3, 2}, {5, 3}, {1, 7}}) {
      const double rho = rho_of(law, shape);
      EXPECT_GE(rho, 0) << law;
      EXPECT_LT(rho, 1 - 1e-3) << law << " " << shape.machines << " x " << shape.local_size;
    }
  }
}

}  // namespace
}  // namespace weft
