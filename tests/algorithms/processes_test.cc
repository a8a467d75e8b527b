// Algorithms of ranks that are processes: one goes while it holds mutexes, and the others go on.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/base/process_job.h"
#include "tests/base/sanitized.h"

namespace {

constexpr int kRanks = 4;

// The line that each rank ended with. Nobody is ended for the death of another rank.
std::map<int, std::string> run_job(const std::string& program, const std::string& settings) {
  return weft::test::run_processes(program, kRanks, settings, "--keep-going");
}

// Where memory is shared, and over a network.
std::vector<std::string> ways() {
#ifdef HAS_UCX
  return {"", "WEFT_TRANSPORTS=ucx WEFT_INTERFACES=lo"};
#else
  return {""};
#endif
}

void expect_others_go_on(const std::string& program, const std::string& error) {
  for (const std::string& way : ways()) {
    const auto lines = run_job(program, way);
    for (int rank = 0; rank < kRanks - 1; ++rank) {
      EXPECT_EQ(lines.at(rank), "[" + std::to_string(rank) + "] ended " + error + "\n") << way;
    }
  }
}

TEST(AdPsgdProcess, ThatIsKilledInAnAverageIsNamedAndTheOthersGoOn) {
  expect_others_go_on(FAULTY_LEARNER " killed",
                      "peer_died: win_lock: window \"ad_psgd\": rank 3 has died");
}

TEST(AdPsgdProcess, ThatLeavesWithMutexesIsNamedAndTheOthersGoOn) {
  expect_others_go_on(FAULTY_LEARNER " left",
                      "peer_left: win_lock: window \"ad_psgd\": rank 3 has closed its context");
}

// Rank 0 has the generator. The survivors' models are means, and they end without an error.
class KilledWorker : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, KilledWorker, testing::Values(0, 2));

TEST_P(KilledWorker, InAGroupIsMissedByNobody) {
  for (const std::string& way : ways()) {
    for (const std::string law : {"smart", "random", "static"}) {
      if (weft::kIsSanitized && GetParam() != 0 && law != "smart") continue;
      const std::string program = FAULTY_WORKER " " + std::to_string(GetParam()) + " " + law;
      const auto lines = run_job(program, way);
      for (int rank = 0; rank < kRanks; ++rank) {
        const std::string want = "[" + std::to_string(rank) + "] ended ok\n";
        if (rank == GetParam()) {
          EXPECT_EQ(lines.count(rank), 0) << lines.at(rank);
        } else {
          EXPECT_TRUE(lines.contains(rank) && lines.at(rank) == want)
              << way << " " << law << ": " << (lines.contains(rank) ? lines.at(rank) : "nothing");
        }
      }
    }
  }
}

class ExchangeProcess : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Rules, ExchangeProcess,
                         testing::Values("bulk", "bounded", "asynchronous", "canary"));

TEST_P(ExchangeProcess, ThatIsKilledIsWaitedForNoMore) {
  expect_others_go_on(std::string(FAULTY_EXCHANGER " killed ") + GetParam(), "ok");
}

TEST_P(ExchangeProcess, ThatLeavesIsWaitedForNoMore) {
  expect_others_go_on(std::string(FAULTY_EXCHANGER " left ") + GetParam(), "ok");
}

}  // namespace
