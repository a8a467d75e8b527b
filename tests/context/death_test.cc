// Ranks as processes: what the others learn when one of them dies or leaves, and that nothing stays
// behind.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "tests/base/process_job.h"

namespace {

// Runs a job of faulty ranks, each started by `starter`, and returns each rank's lines.
std::map<int, std::string> run_job(const std::string& arguments, const std::string& settings = "",
                                   const std::string& starter = "", int ranks = 5) {
  return weft::test::run_processes(starter + " " FAULTY_RANK " " + arguments, ranks, settings);
}

std::set<std::string> names_in_shared_memory() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    names.insert(entry.path().filename());
  return names;
}

void expect_all_name(const std::map<int, std::string>& lines, int culprit,
                     const std::string& code) {
  for (int rank = 0; rank < 5; ++rank) {
    if (rank == culprit) continue;
    const auto found = lines.find(rank);
    ASSERT_NE(found, lines.end()) << "rank " << rank << " said nothing";
    EXPECT_NE(found->second.find(code), std::string::npos) << found->second;
    EXPECT_NE(found->second.find("rank " + std::to_string(culprit)), std::string::npos)
        << found->second;
  }
}

TEST(Death, OfOneRankIsNamedOnEveryOther) {
  const auto before = names_in_shared_memory();
  expect_all_name(run_job("killed 2"), 2, "peer_died");
  EXPECT_EQ(names_in_shared_memory(), before);
}

TEST(Death, IsNamedWhereverTheRankDies) {
  for (const int culprit : {0, 4}) {
    expect_all_name(run_job("killed " + std::to_string(culprit)), culprit, "peer_died");
  }
}

TEST(Death, IsNamedWhereLargeOperationsRunOnSeveralLanes) {
  const std::string three_mib = " 786432";
  expect_all_name(run_job("killed 2" + three_mib, "WEFT_LANES=3"), 2, "peer_died");
  expect_all_name(run_job("leaves 3" + three_mib, "WEFT_LANES=3"), 3, "peer_left");
}

#ifdef HAS_UCX
// The network of a rank that has died fails before anybody says that it has.
TEST(Death, IsNamedWhereRanksDoNotShareMemory) {
  const std::string network = "WEFT_TRANSPORTS=ucx WEFT_INTERFACES=lo";
  for (int time = 0; time < 3; ++time)
    expect_all_name(run_job("killed 2", network), 2, "peer_died");
  expect_all_name(run_job("leaves 3", network), 3, "peer_left");
}
#endif

// Ranks read each other's GPUs then (CUDA IPC); memory of one that is gone stays mapped.
TEST(Death, IsNamedWhereTensorsAreOnGpus) {
  const std::string fake = "LD_LIBRARY_PATH=" CUDA_FAKE;
  const std::string three_mib = " 786432 gpu";
  expect_all_name(run_job("killed 2" + three_mib, fake), 2, "peer_died");
  expect_all_name(run_job("leaves 3" + three_mib, fake), 3, "peer_left");
  for (const auto& [rank, text] : run_job("fine -1" + three_mib, fake))
    EXPECT_NE(text.find("ended ok"), std::string::npos) << text;
}

// Process 1 of a pid namespace would survive its own SIGKILL: that is a shell, and the rank its child.
TEST(Death, InAPidNamespaceIsNamedOnEveryOther) {
  const std::string starter = "unshare --pid --fork sh -c '\"$@\"; exit $?' sh";
  if (std::system((starter + " true 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "not permitted: unshare --pid";
  expect_all_name(run_job("killed 2", "", starter), 2, "peer_died");
}

TEST(Leaving, InTheMiddleOfTheJobIsNamedOnEveryOther) {
  expect_all_name(run_job("leaves 3"), 3, "peer_left");
}

TEST(PrivateMemory, ArrivesByEitherWay) {
  for (const char* const way : {"WEFT_PRIVATE_MEMORY=cma", "WEFT_PRIVATE_MEMORY=staging"}) {
    const auto lines = run_job("private 2", way);
    ASSERT_EQ(lines.size(), 5U);
    for (const auto& [rank, text] : lines)
      EXPECT_NE(text.find("ended ok"), std::string::npos) << way << ": " << text;
  }
}

// One rank tries both ways, and the others do as it does. Of a broadcast, which ten ranks pass on, that
// is the root. In a gather many send to the root, and nobody can tell by its own message.
TEST(PrivateMemory, OneRankMeasuresHowItTravels) {
  const auto lines = run_job("private 7", "", "", 10);
  ASSERT_EQ(lines.size(), 10U);
  for (const auto& [rank, text] : lines)
    EXPECT_EQ(text.find("private memory, gather"), std::string::npos) << text;
  for (const auto& [name, measures] : {std::pair("allgather", 0), std::pair("broadcast", 7)}) {
    for (const auto& [rank, text] : lines) {
      EXPECT_NE(text.find("ended ok"), std::string::npos) << text;
      const std::size_t begin = text.find(std::string("private memory, ") + name);
      if (rank == measures) {
        ASSERT_NE(begin, std::string::npos) << "rank " << rank << ": " << text;
      }
      if (begin == std::string::npos) continue;  // the rank sends nothing in a broadcast
      const std::string line = text.substr(begin, text.find('\n', begin) - begin);
      EXPECT_EQ(line.find("as the lowest in-neighbor does") == std::string::npos, rank == measures)
          << "rank " << rank << ": " << line;
      EXPECT_EQ(line.find("not measured"), std::string::npos) << "rank " << rank << ": " << line;
    }
  }
}

// Each rank's lines say what was wrong with the end of a call.
void expect_every_call_ends(const std::string& fault, int deadline_ms,
                            const std::string& environment = "") {
  const std::string command = environment + " WEFT_DEADLINE_MS=" + std::to_string(deadline_ms) +
                              " " WEFT_BINARY " run -n 3 --deadline 60 --grace 60 -- " ABSENT_RANK
                              " " +
                              fault + " 2>/dev/null";
  FILE* output = popen(command.c_str(), "r");
  std::array<char, 4096> line{};
  std::set<std::string> lines;
  while (fgets(line.data(), line.size(), output) != nullptr) lines.insert(line.data());
  pclose(output);
  std::set<std::string> expected{"[0] ended ok\n", "[1] ended ok\n"};
  if (fault == "leaves") expected.insert("[2] ended ok\n");
  EXPECT_EQ(lines, expected) << fault << " " << environment;
}

TEST(Absence, OfARankThatIsStoppedEndsEveryCallAtItsDeadline) {
  expect_every_call_ends("stopped", 3000);
}

// Long before the deadline, as --deadline is below it.
TEST(Absence, OfARankThatDiesOrLeavesEndsEveryCallThatIsUnderWay) {
  expect_every_call_ends("killed", 120'000);
  expect_every_call_ends("leaves", 120'000);
#ifdef HAS_UCX
  const std::string network = "WEFT_TRANSPORTS=ucx WEFT_INTERFACES=lo";
  expect_every_call_ends("killed", 120'000, network);
  expect_every_call_ends("leaves", 120'000, network);
#endif
}

TEST(Fine, JobEndsWellOnAllRanks) {
  const auto lines = run_job("fine");
  ASSERT_EQ(lines.size(), 5U);
  for (const auto& [rank, text] : lines)
    EXPECT_NE(text.find("ended ok"), std::string::npos) << text;
}

TEST(Settings, ThatDifferBetweenRanksAreNamed) {
  for (const std::string name : {"WEFT_SLOTS", "WEFT_CHANNELS"}) {
    const std::string command = WEFT_BINARY " run -n 2 --deadline 60 -- sh -c '" + name +
                                "=$((4 << WEFT_RANK)) exec " FAULTY_RANK "' 2>/dev/null";
    FILE* output = popen(command.c_str(), "r");
    std::array<char, 4096> text{};
    const std::size_t bytes = fread(text.data(), 1, text.size() - 1, output);
    pclose(output);
    const std::string said(text.data(), bytes);
    const bool is_told =
        said.find("rank 0 has " + name + " = 4, this rank 8") != std::string::npos ||
        said.find("rank 1 has " + name + " = 8, this rank 4") != std::string::npos;
    EXPECT_TRUE(is_told) << said;
  }
}

}  // namespace
