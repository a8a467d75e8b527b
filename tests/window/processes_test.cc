// Windows of ranks that are processes: one is killed or stopped, and the others go on.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/base/process_job.h"

namespace {

constexpr int kRanks = 4;

// The line that each rank ended with. Nobody is ended for the death of another rank.
std::map<int, std::string> run_job(const std::string& fault, const std::string& settings = "") {
  return weft::test::run_processes(FAULTY_WINDOW " " + fault, kRanks, settings, "--keep-going");
}

TEST(WindowProcess, ThatHoldsAMutexAndDiesIsSucceeded) {
  const auto lines = run_job("holder");
  for (int rank = 0; rank < kRanks - 1; ++rank)
    EXPECT_EQ(lines.at(rank), "[" + std::to_string(rank) + "] ended ok\n");
}

TEST(WindowProcess, ThatDiesInAPutIsNamedAndLeavesNothingHalf) {
  const auto lines = run_job("writer");
  for (int rank = 0; rank < kRanks - 1; ++rank) {
    EXPECT_NE(lines.at(rank).find("peer_died"), std::string::npos) << lines.at(rank);
    EXPECT_NE(lines.at(rank).find("rank 3"), std::string::npos) << lines.at(rank);
  }
}

// With these settings, and where memory is shared.
std::vector<std::string> ways() {
#ifdef HAS_UCX
  return {"", "WEFT_TRANSPORTS=ucx WEFT_INTERFACES=lo"};
#else
  return {""};
#endif
}

TEST(WindowProcess, ThatDiesIsNamedToWhoWaitsForItsSignalOnly) {
  for (const std::string& way : ways()) {
    const auto lines = run_job("deserted", way);
    EXPECT_EQ(
        lines.at(0),
        "[0] ended peer_died: win_wait_signal: window \"w\": signal 0 was raised 1 times, not "
        "2, and nobody is left to raise it: rank 2 has died, rank 3 has closed its context\n");
    EXPECT_EQ(lines.at(1), "[1] ended ok\n");
  }
}

TEST(WindowProcess, ThatDiesTakesItsMutexAlong) {
  for (const std::string& way : ways()) {
    const auto lines = run_job("owner", way);
    for (int rank = 0; rank < kRanks - 1; ++rank) {
      EXPECT_EQ(lines.at(rank), "[" + std::to_string(rank) +
                                    "] ended peer_died: win_lock: window \"w\": rank 3 has died\n");
    }
  }
}

TEST(WindowProcess, ThatIsStoppedStopsNobody) {
  const auto lines = run_job("stopped");
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(lines.at(rank), "[" + std::to_string(rank) + "] ended ok\n");
}

#ifdef HAS_UCX
// Over UCX on TCP a stopped process serves nobody, which ends in time and is said.
TEST(WindowProcess, ThatIsStoppedIsNamedWhereItMustServe) {
  const auto lines =
      run_job("silent", "WEFT_TRANSPORTS=ucx WEFT_INTERFACES=lo WEFT_DEADLINE_MS=700");
  EXPECT_NE(lines.at(0).find("timed_out: win_put: window \"w\": rank 3"), std::string::npos)
      << lines.at(0);
}

// The swap that was under way when rank 1 was stopped is settled when it goes on.
TEST(WindowProcess, ThatIsStoppedIsNamedByWhoeverWantsItsMutex) {
  const auto lines =
      run_job("mutexes", "WEFT_TRANSPORTS=ucx WEFT_INTERFACES=lo WEFT_DEADLINE_MS=700");
  const auto expect = [&](const std::string& text) {
    EXPECT_NE(lines.at(0).find("[0] " + text), std::string::npos) << text << "\n" << lines.at(0);
  };
  expect("put timed_out: win_put: window \"w\": the lock of rank 2 was not taken in time");
  expect("get timed_out: win_get: window \"w\": rank 3 did not answer");
  expect(
      "unlock timed_out: win_unlock: window \"w\": the lock of rank 1 was not given back in time");
  expect(
      "lock timed_out: win_lock: window \"w\": the lock of rank 2 was not taken in time: its owner "
      "has");
  expect(
      "lock timed_out: win_lock: window \"w\": the lock of rank 3 was not taken in time: its path");
  expect("ended ok");
}
#endif

}  // namespace
