// Agreement: whatever the order in which ranks submit and messages arrive, all ranks get the same
// decisions in the same order, and a name runs only after every rank has submitted it.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "tests/base/sanitized.h"
#include "tests/negotiate/network.h"

namespace weft::test {
namespace {

class Sizes : public testing::TestWithParam<int> {};

TEST_P(Sizes, RanksThatSubmitInTheirOwnOrdersRunInOneOrder) {
  constexpr int kNames = 20;
  constexpr int kRounds = 4;
  for (std::uint64_t seed = 1; seed <= seeds(5); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Network network(GetParam(), seed);
    std::mt19937_64 random(seed);
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::vector<int>> orders(static_cast<std::size_t>(GetParam()));
      for (auto& order : orders) {
        order.resize(kNames);
        std::iota(order.begin(), order.end(), 0);
        std::ranges::shuffle(order, random);
      }
      // Submissions and messages are interleaved at random.
      for (int left = kNames * GetParam(); left > 0;) {
        auto& order = orders[random() % orders.size()];
        if (!order.empty()) {
          const int rank = static_cast<int>(&order - orders.data());
          const std::string name = "t" + std::to_string(order.back());
          ASSERT_TRUE(network.rank(rank).submit(sum_of(name), 0).ok());
          order.pop_back();
          --left;
          if (random() % 2 == 0) network.step(rank);
        }
        if (random() % 2 == 0) network.deliver_one();
      }
      network.settle();
    }
    const std::vector<std::string> first = network.told(0);
    ASSERT_EQ(first.size(), static_cast<std::size_t>(kNames * kRounds));
    for (int rank = 1; rank < GetParam(); ++rank) {
      EXPECT_EQ(network.told(rank), first);
      EXPECT_EQ(network.cycles(rank), network.cycles(0));
    }
    for (int rank = 0; rank < GetParam(); ++rank) EXPECT_EQ(network.rank(rank).pending(), 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Sizes, testing::Values(1, 2, 3, 4, 5, 7, 8, 13, 64, 70));

TEST(Negotiate, ANameWaitsForTheLastRank) {
  Network network(4, 7);
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(network.rank(rank).submit(sum_of("a"), 0).ok());
    ASSERT_TRUE(network.rank(rank).submit(sum_of("b"), 0).ok());
  }
  ASSERT_TRUE(network.rank(3).submit(sum_of("b"), 0).ok());
  network.settle();
  EXPECT_EQ(network.names_run(0), std::vector<std::string>{"b"});
  ASSERT_TRUE(network.rank(3).submit(sum_of("a"), 0).ok());
  network.settle();
  EXPECT_EQ(network.names_run(2), (std::vector<std::string>{"b", "a"}));
}

TEST(Negotiate, ARankThatWaitsForAnotherOneBeginsNoCycles) {
  Network network(4, 3);
  for (int rank = 0; rank < 4; ++rank) ASSERT_TRUE(network.rank(rank).submit(sum_of("a"), 0).ok());
  network.settle();
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(network.rank(rank).submit(sum_of("a"), 0).ok());
  network.settle();
  const std::uint64_t cycles = network.rank(0).counts().cycles;
  for (int turn = 0; turn < 100; ++turn) network.settle();
  EXPECT_EQ(network.rank(0).counts().cycles, cycles);
  EXPECT_EQ(network.names_run(0).size(), 1U);
}

TEST(Negotiate, WhatComesWithinTheGatherWaitSharesACycle) {
  Network network(2, 3, {.gather_ns = 1000});
  for (const char* name : {"a", "b", "c"}) {
    for (int rank = 0; rank < 2; ++rank)
      ASSERT_TRUE(network.rank(rank).submit(sum_of(name), network.now()).ok());
    network.pass(100);
    network.settle();
  }
  EXPECT_EQ(network.rank(0).counts().cycles, 0U);
  EXPECT_EQ(network.rank(0).next_ns(), 1000);
  network.pass(1000);
  network.settle();
  EXPECT_EQ(network.rank(0).counts().cycles, 1U);
  EXPECT_EQ(network.names_run(1).size(), 3U);
}

void submit_with_priority(Network& network, int name) {
  NamedRequest request = sum_of("p" + std::to_string(name));
  request.priority = name;
  for (int rank = 0; rank < network.size(); ++rank)
    ASSERT_TRUE(network.rank(rank).submit(request, 0).ok());
}

TEST(Negotiate, HigherPrioritiesRunFirst) {
  Network network(3, 9);
  for (int name = 0; name < 5; ++name) submit_with_priority(network, name);
  network.settle();
  EXPECT_EQ(network.names_run(1), (std::vector<std::string>{"p4", "p3", "p2", "p1", "p0"}));
}

// The places in the cache are in the order of priorities that rise.
TEST(Negotiate, OfNamesInTheCacheHigherPrioritiesRunFirstToo) {
  Network network(3, 9);
  for (int name = 0; name < 5; ++name) {
    submit_with_priority(network, name);
    network.settle();
  }
  for (int name = 0; name < 5; ++name) submit_with_priority(network, name);
  network.settle();
  const std::vector<std::string> order{"p0", "p1", "p2", "p3", "p4", "p4", "p3", "p2", "p1", "p0"};
  EXPECT_EQ(network.names_run(1), order);
  EXPECT_EQ(network.rank(1).counts().hits, 5U);
}

TEST(Negotiate, OfEqualPrioritiesTheNameThatRankZeroHeardOfFirstRunsFirst) {
  Network network(3, 9);
  for (const char* name : {"first", "second", "third"}) {
    for (const int rank : {0, 1}) ASSERT_TRUE(network.rank(rank).submit(sum_of(name), 0).ok());
    network.settle();
  }
  for (const char* name : {"third", "second", "first"})
    ASSERT_TRUE(network.rank(2).submit(sum_of(name), 0).ok());
  network.settle();
  EXPECT_EQ(network.names_run(0), (std::vector<std::string>{"first", "second", "third"}));
}

TEST(Negotiate, AShapeThatChangesIsAskedAboutAnewOnAllRanks) {
  Network network(5, 2);
  for (const std::size_t count : {4, 4, 8, 8}) {
    for (int rank = 0; rank < 5; ++rank)
      ASSERT_TRUE(network.rank(rank).submit(sum_of("a", count), 0).ok());
    network.settle();
  }
  EXPECT_EQ(network.names_run(4).size(), 4U);
  EXPECT_EQ(network.rank(1).counts().invalidations, 1U);
  EXPECT_EQ(network.rank(1).counts().misses, 2U);
  EXPECT_EQ(network.rank(1).counts().hits, 2U);
}

TEST(Negotiate, AFullCacheEvictsTheSameNamesEverywhere) {
  constexpr int kNames = 300;
  Network network(6, 4, {.cache_capacity = 16});
  std::mt19937_64 random(4);
  for (int round = 0; round < 600; ++round) {
    const std::string name =
        "n" + std::to_string(random() % 2 == 0 ? random() % 8 : random() % kNames);
    for (int rank = 0; rank < 6; ++rank)
      ASSERT_TRUE(network.rank(rank).submit(sum_of(name), 0).ok());
    network.settle();
  }
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(network.names_run(rank).size(), 600U);
    EXPECT_EQ(network.told(rank), network.told(0));
    EXPECT_GT(network.rank(rank).counts().evictions, 0U);
    EXPECT_EQ(network.rank(rank).counts().hits, network.rank(0).counts().hits);
  }
}

TEST(Negotiate, ANamePendingAtSomeRanksSurvivesItsEviction) {
  Network network(2, 5, {.cache_capacity = 2});
  const auto both = [&](const std::string& name) {
    for (int rank = 0; rank < 2; ++rank)
      ASSERT_TRUE(network.rank(rank).submit(sum_of(name), 0).ok());
    network.settle();
  };
  both("a");
  ASSERT_TRUE(network.rank(0).submit(sum_of("a"), 0).ok());
  network.settle();
  both("b");
  both("c");  // evicts a, for which rank 0 waits
  ASSERT_TRUE(network.rank(1).submit(sum_of("a"), 0).ok());
  network.settle();
  EXPECT_EQ(network.names_run(0), (std::vector<std::string>{"a", "b", "c", "a"}));
  EXPECT_EQ(network.told(1), network.told(0));
}

TEST(Negotiate, ARankThatHasJoinedGivesItsConsent) {
  Network network(3, 6);
  const auto submit = [&](std::initializer_list<int> ranks, const std::string& name) {
    for (const int rank : ranks) ASSERT_TRUE(network.rank(rank).submit(sum_of(name), 0).ok());
    network.settle();
  };
  submit({0, 1, 2}, "a");
  ASSERT_TRUE(network.rank(1).join(0).ok());
  network.settle();
  EXPECT_EQ(network.rank(1).submit(sum_of("a"), 0).code(), Code::invalid_argument);
  submit({0, 2}, "a");  // known
  submit({0, 2}, "new");
  submit({2}, "a");  // waits for rank 0, which joins instead
  ASSERT_TRUE(network.rank(0).join(0).ok());
  network.settle();
  ASSERT_TRUE(network.rank(2).join(0).ok());
  network.settle();
  submit({0, 1, 2}, "a");
  const std::vector<std::string> expected{"run a", "run a",    "run new",
                                          "run a", "joined 2", "run a"};
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(network.told(rank), expected);
}

}  // namespace
}  // namespace weft::test
