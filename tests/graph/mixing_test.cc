// Mixing figures against closed forms.
#include <gtest/gtest.h>
#include <weft/graph.h>

#include <cmath>
#include <numbers>

#include "tests/graph/product.h"

namespace weft {
namespace {

constexpr double kClose = 1e-6;
constexpr double kPi = std::numbers::pi;

TEST(Mixing, RingHasItsCirculantEigenvalue) {
  for (int n = 3; n <= 64; ++n) {
    // (1 + 2 cos(2 pi k / n)) / 3: the largest in size is at k = 1, or at k = n/2 for the smallest
    // n.
    double expected = 0;
    for (int k = 1; k < n; ++k)
      expected = std::max(expected, std::abs(1 + 2 * std::cos(2 * kPi * k / n)) / 3);
    EXPECT_NEAR(sigma2(ring_graph(n).value()), expected, kClose) << n;
  }
}

TEST(Mixing, DirectedRingHasItsSingularValue) {
  for (int n = 2; n <= 64; ++n) {
    EXPECT_NEAR(sigma2(ring_graph(n, RingStyle::next).value()), std::cos(kPi / n), kClose) << n;
  }
}

TEST(Mixing, HypercubeIsOneMinusTwoOverDegreePlusOne) {
  for (int m = 1; m <= 6; ++m) {
    EXPECT_NEAR(sigma2(hypercube_graph(1 << m).value()), (m - 1.0) / (m + 1.0), kClose) << m;
  }
}

TEST(Mixing, StarIsOneMinusOneOverN) {
  EXPECT_NEAR(sigma2(star_graph(16).value()), 1 - 1. / 16, kClose);
}

TEST(Mixing, FullyConnectedAveragesAtOnce) {
  for (const int n : {1, 2, 7, 64}) {
    const Mixing figures = mixing(fully_connected_graph(n).value());
    EXPECT_NEAR(figures.sigma2, 0, kClose);
    EXPECT_NEAR(figures.spectral_gap, 1, kClose);
    EXPECT_EQ(figures.rounds, n == 1 ? 0 : 1);
  }
}

TEST(Mixing, LargeRingIsStillResolved) {
  constexpr int kSize = 1000;
  const double gap = 1 - (1 + 2 * std::cos(2 * kPi / kSize)) / 3;
  EXPECT_NEAR(1 - sigma2(ring_graph(kSize).value()), gap, 0.05 * gap);
}

TEST(Mixing, OnePeerExponentialAveragesInOnePeriodForPowersOfTwo) {
  for (int m = 1; m <= 6; ++m) {
    const Mixing figures = mixing(one_peer_exponential(1 << m).value()).value();
    EXPECT_NEAR(figures.sigma2, 0, kClose) << m;
    EXPECT_EQ(figures.rounds, m);
  }
  EXPECT_GT(sigma2(one_peer_exponential(6).value()).value(), 0.1);
}

TEST(Mixing, OfAScheduleIsOfTheProductInTheOrderOfItsSteps) {
  const Schedule schedule = one_peer(star_graph(5).value());  // its steps do not commute
  Graph whole = step_graph(schedule, 0).value();
  for (std::uint64_t step = 1; step < schedule.period(); ++step) {
    whole = product(step_graph(schedule, step).value(), whole);
  }
  EXPECT_NEAR(sigma2(schedule).value(), sigma2(whole), 1e-9);
}

TEST(Mixing, UndirectedOnePeerMixesFourRanks) {
  const Mixing figures = mixing(undirected_one_peer(4).value()).value();
  EXPECT_NEAR(figures.sigma2, 0, kClose);
  EXPECT_EQ(figures.rounds, 2);
}

TEST(Mixing, RoundsAreWithinTheBoundOfSigma2) {
  for (const char* spec : {"ring", "grid", "exponential", "tree", "star"}) {
    const Mixing figures = mixing(make_graph(spec, 24).value(), 1e-4);
    ASSERT_TRUE(figures.rounds) << spec;
    const double bound = std::ceil(std::log(1e-4) / std::log(figures.sigma2));
    EXPECT_LE(*figures.rounds, bound) << spec;
    EXPECT_GE(*figures.rounds, bound / 2) << spec;
  }
}

TEST(Mixing, PushWeightsAreMeasuredByTheirRatio) {
  const Graph star = make_graph("star:weights=push_uniform", 9).value();
  EXPECT_TRUE(mixing(star).rounds.has_value());
  EXPECT_TRUE(mixing(one_peer(star)).value().rounds.has_value());
}

TEST(Mixing, WhatIsNotConnectedNeverMixes) {
  const Graph apart = Graph::from_matrix(2, {1, 0, 0, 1}, "apart").value();
  EXPECT_NEAR(mixing(apart).sigma2, 1, kClose);
  EXPECT_FALSE(mixing(apart).rounds.has_value());
}

TEST(Mixing, ContradictingViewsAreRefused) {
  const Schedule broken({.name = "broken", .size = 2}, [](std::uint64_t, Rank rank) {
    return LocalView{rank, 2, {}, {{1 - rank, 0.5}}, 0.5};
  });
  EXPECT_EQ(mixing(broken).status().code(), Code::mismatch);
}

}  // namespace
}  // namespace weft
