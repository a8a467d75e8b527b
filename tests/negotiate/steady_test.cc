// What agreement costs: a loop that repeats its names tells rank 0 nothing after its first round,
// and its cycles grow with the logarithm of the ranks.
#include <gtest/gtest.h>

#include <bit>

#include "tests/base/sanitized.h"
#include "tests/negotiate/network.h"

namespace weft::test {
namespace {

constexpr int kManyRanks = searched(1024, 128);
constexpr int kTensors = 161;  // of ResNet-50

void submit_all(Network& network, int rank) {
  for (int tensor = 0; tensor < kTensors; ++tensor)
    ASSERT_TRUE(network.rank(rank).submit(sum_of("layer" + std::to_string(tensor)), 0).ok());
}

TEST(NegotiateSteady, ALoopAsksRankZeroOnceAndThenExchangesBits) {
  Network network(kManyRanks, 1);
  for (int rank = 0; rank < kManyRanks; ++rank) submit_all(network, rank);
  network.settle();
  std::vector<Negotiator::Counts> before;
  for (int rank = 0; rank < kManyRanks; ++rank) before.push_back(network.rank(rank).counts());
  constexpr int kRounds = 3;
  for (int round = 0; round < kRounds; ++round) {
    for (int rank = 0; rank < kManyRanks; ++rank) submit_all(network, rank);
    network.settle();
  }
  const auto rounds =
      static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(kManyRanks)) - 1);
  for (int rank = 0; rank < kManyRanks; ++rank) {
    const Negotiator::Counts& after = network.rank(rank).counts();
    const Negotiator::Counts& once = before[static_cast<std::size_t>(rank)];
    const std::uint64_t cycles = after.cycles - once.cycles;
    EXPECT_EQ(after.coordinator_messages, once.coordinator_messages);
    EXPECT_EQ(cycles, static_cast<std::uint64_t>(kRounds));
    EXPECT_EQ(after.messages - once.messages, cycles * rounds);
    EXPECT_LE(after.bytes - once.bytes, cycles * (64 + 2 * kTensors * rounds / 8));
    EXPECT_EQ(network.told(rank).size(), static_cast<std::size_t>(kTensors * (kRounds + 1)));
  }
}

TEST(NegotiateSteady, TheCacheForgetsTheNameThatWasNotUsedForLongest) {
  Network network(2, 1, {.cache_capacity = 2});
  const auto hits_of = [&network](const std::string& name) {
    const std::uint64_t before = network.rank(0).counts().hits;
    for (int rank = 0; rank < 2; ++rank)
      EXPECT_TRUE(network.rank(rank).submit(sum_of(name), 0).ok());
    network.settle();
    return network.rank(0).counts().hits - before;
  };
  EXPECT_EQ(hits_of("first"), 0U);
  EXPECT_EQ(hits_of("second"), 0U);
  EXPECT_EQ(hits_of("first"), 1U);  // so "second" is the older one now
  EXPECT_EQ(hits_of("third"), 0U);
  EXPECT_EQ(hits_of("first"), 1U);
  EXPECT_EQ(hits_of("second"), 0U);
}

TEST(NegotiateSteady, ANewNameIsNotTheFirstToBeForgotten) {
  Network network(2, 1, {.cache_capacity = 2});
  for (const char* name : {"a", "b", "c", "b"}) {
    for (int rank = 0; rank < 2; ++rank)
      ASSERT_TRUE(network.rank(rank).submit(sum_of(name), 0).ok());
    network.settle();
  }
  EXPECT_EQ(network.rank(0).counts().hits, 1U);
}

TEST(NegotiateSteady, WithoutACacheRankZeroHearsOfEverything) {
  Network network(16, 1, {.cache_capacity = 0});
  for (int round = 0; round < 3; ++round) {
    for (int rank = 0; rank < 16; ++rank) submit_all(network, rank);
    network.settle();
  }
  EXPECT_EQ(network.rank(0).counts().hits, 0U);
  EXPECT_EQ(network.rank(0).counts().coordinator_messages, 3U * 15);
  EXPECT_EQ(network.told(15), network.told(0));
}

}  // namespace
}  // namespace weft::test
