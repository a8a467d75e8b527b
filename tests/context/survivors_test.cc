// Jobs that go on when processes are killed: by a context of those that are left, and by OnDeath::skip.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/base/process_job.h"

namespace {

// Runs a job of surviving ranks, of which `killed` die. The others must end well, and say that
// they were left.
void expect_survivors(const std::string& way, int ranks, const std::set<int>& killed,
                      std::string settings = "") {
  std::string program = SURVIVING_RANK " " + way;
  for (const int rank : killed) program += " " + std::to_string(rank);
  if (way != "shrink") settings += " WEFT_ON_DEATH=skip";
  const auto lines = weft::test::run_processes(program, ranks, settings, "--keep-going");
  const std::string left = "left " + std::to_string(ranks - static_cast<int>(killed.size()));
  for (int rank = 0; rank < ranks; ++rank) {
    if (killed.contains(rank)) continue;
    const auto said = lines.find(rank);
    ASSERT_NE(said, lines.end()) << way << ": rank " << rank << " said nothing";
    EXPECT_NE(said->second.find(left), std::string::npos) << way << ": " << said->second;
    EXPECT_NE(said->second.find("ended ok"), std::string::npos) << way << ": " << said->second;
  }
}

TEST(Survivors, ShrinkTheContextAgainAndAgain) {
  expect_survivors("shrink", 5, {0, 2, 4});
}

TEST(Survivors, GoOnWithoutTheDead) {
  expect_survivors("skip", 6, {0, 3});
}

TEST(Survivors, KnowOfADeathWhereTheyNeedAll) {
  expect_survivors("needing", 4, {2});
  expect_survivors("needing", 4, {0, 3});
}

TEST(Survivors, GoOnWithSeveralOperationsInFlight) {
  expect_survivors("started", 5, {1});
}

TEST(Survivors, GoOnWithOneRankLeft) {
  expect_survivors("skip", 3, {0, 2});
}

TEST(Survivors, GoOnWhereSeveralDieAtOnce) {
  expect_survivors("together", 6, {1, 2, 5});
}

// Runs a job of which `killed` die and come back.
void expect_back(int ranks, const std::set<int>& killed, const std::string& settings = "") {
  std::string program = SURVIVING_RANK " back";
  for (const int rank : killed) program += " " + std::to_string(rank);
  const auto lines = weft::test::run_processes(program, ranks, settings, "--restart 1");
  const std::string all = ", " + std::to_string(ranks) + " of " + std::to_string(ranks) +
                          ", step " + std::to_string(20 * (killed.size() + 1));
  for (int rank = 0; rank < ranks; ++rank) {
    const auto said = lines.find(rank);
    ASSERT_NE(said, lines.end()) << "rank " << rank << " said nothing";
    const std::string how = killed.contains(rank) ? "came back" : "stayed";
    EXPECT_NE(said->second.find(how + all), std::string::npos) << said->second;
    EXPECT_NE(said->second.find("ended ok"), std::string::npos) << said->second;
  }
}

TEST(Survivors, LetTheDeadIn) {
  expect_back(4, {1, 3});
  expect_back(6, {0, 2, 4});
}

#ifdef HAS_UCX
TEST(Survivors, LetTheDeadInOverANetwork) {
  expect_back(4, {0, 2}, "WEFT_TRANSPORTS=ucx WEFT_INTERFACES=lo");
}

TEST(Survivors, GoOnOverANetwork) {
  expect_survivors("together", 5, {1, 2}, "WEFT_TRANSPORTS=ucx WEFT_INTERFACES=lo");
}
#endif

}  // namespace
