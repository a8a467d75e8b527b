// Mutual exclusion and progress in every course of events, and that both need what the protocol
// does: each part that is left out is found.
#include "tests/lock/interleavings.h"

#include <gtest/gtest.h>

#include "tests/base/sanitized.h"

namespace weft {
namespace {

// How often each of two ranks takes the lock.
constexpr int kTwice = searched(2, 1);

constexpr std::uint64_t kEpoch = (std::uint64_t{1} << kEpochBits) - 1;

void expect_right(const WorldOptions& options) {
  const Explored explored = explore(options);
  EXPECT_EQ(explored.wrong, "");
  testing::Test::RecordProperty("states", std::to_string(explored.states));
  EXPECT_GT(explored.states, 100u);
}

TEST(Interleavings, TwoRanksTakeTurns) {
  expect_right({.ranks = {0, 1}, .wants = 3});
}

TEST(Interleavings, ThreeRanksTakeTurns) {
  expect_right({.ranks = {0, 1, 2}, .wants = 1});
}

TEST(Interleavings, SwapsAreLostOrLateAndPathsFail) {
  expect_right({.ranks = {0, 1}, .wants = kTwice, .cuts = 2});
}

TEST(Interleavings, SwapsComeTwice) {
  expect_right({.ranks = {0, 1}, .wants = kTwice, .cuts = 1, .repeats = 1});
}

TEST(Interleavings, DeadlinesPassWhileASwapIsInDoubt) {
  expect_right({.ranks = {0, 1}, .wants = kTwice, .cuts = 1, .deadlines = 1});
}

TEST(Interleavings, HoldersDie) {
  expect_right({.ranks = {0, 1, 2}, .wants = 1, .deaths = 1});
}

TEST(Interleavings, HoldersDieAndSwapsAreLate) {
  expect_right({.ranks = {0, 1}, .wants = kTwice, .cuts = 1, .deaths = 1});
}

TEST(Interleavings, TwoLocksOfOneRank) {
  expect_right({.ranks = {1, 1}, .wants = kTwice, .cuts = 1});
}

TEST(Interleavings, ManyRanksBySeed) {
  for (std::uint64_t seed = 0; seed < seeds(2'000); ++seed) {
    const WorldOptions options{.ranks = {0, 1, 2, 3, 4, 4},
                               .wants = 4,
                               .cuts = 6,
                               .repeats = 4,
                               .deadlines = 3,
                               .deaths = static_cast<int>(seed % 3)};
    ASSERT_EQ(play(options, seed), "") << "seed " << seed;
  }
}

TEST(Interleavings, WithoutEpochsALateSwapIsFound) {
  EXPECT_NE(
      explore({.ranks = {0, 1}, .wants = 2, .cuts = 1, .deadlines = 1, .ignored_bits = kEpoch})
          .wrong,
      "");
}

TEST(Interleavings, WithoutEpochsASwapThatComesTwiceIsFound) {
  EXPECT_NE(explore({.ranks = {0, 1}, .wants = 2, .repeats = 1, .ignored_bits = kEpoch}).wrong, "");
}

TEST(Interleavings, WithoutAttemptsTwoLocksOfOneRankAreFound) {
  EXPECT_NE(explore({.ranks = {1, 1}, .wants = 1, .cuts = 1, .separate_attempts = true}).wrong, "");
}

}  // namespace
}  // namespace weft
