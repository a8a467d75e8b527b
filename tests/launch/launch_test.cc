// One program, every launcher: the ranks find each other and their results are right, whoever
// started them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "engine/bootstrap/bootstrap.h"

namespace weft {
namespace {

constexpr int kRanks = 4;
// Nothing of whoever started this test may tell its children who they are. LeakSanitizer dies of the
// plug-ins and threads that libpmix leaves.
constexpr const char* kClean =
    "env -u PMIX_NAMESPACE -u PMIX_RANK -u RANK -u WORLD_SIZE -u MASTER_ADDR -u MASTER_PORT "
    "-u LOCAL_RANK -u LOCAL_WORLD_SIZE WEFT_DEADLINE_MS=20000 "
    "ASAN_OPTIONS=detect_leaks=0 ";
constexpr const char* kKey = " WEFT_JOB_KEY=0123456789abcdef0123456789abcdef ";

struct Ran {
  int status;
  std::vector<std::string> lines;  // of both streams, sorted
};

Ran shell(const std::string& command) {
  Ran ran{-1, {}};
  FILE* output = ::popen((command + " 2>&1").c_str(), "r");
  if (output == nullptr) return ran;
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), line.size(), output) != nullptr)
    ran.lines.emplace_back(line.data());
  ran.status = ::pclose(output);
  std::ranges::sort(ran.lines);
  return ran;
}

// Each rank said once, and only, that all was right.
void expect_all_right(const Ran& ran) {
  std::vector<std::string> expected;
  for (int rank = 0; rank < kRanks; ++rank) {
    expected.push_back("rank " + std::to_string(rank) + " of " + std::to_string(kRanks) +
                       ": all right\n");
  }
  EXPECT_EQ(ran.lines, expected);
  EXPECT_EQ(ran.status, 0);
}

// A shell command that starts the ranks at once with `settings`, in which $r is the rank's number,
// and fails when one of them does.
std::string each_rank(const std::string& settings) {
  return "sh -c 'pids=; for r in 0 1 2 3; do " + std::string(kClean) + settings +
         " " RANK " & pids=\"$pids $!\"; done; for p in $pids; do wait $p || exit 1; done'";
}

// 127 says that PMIx is unavailable, to this build or on this machine; anything else is broken.
bool weft_run_has_pmix() {
  const int status = shell(std::string(kClean) + WEFT " run --pmix -n 1 -- true").status;
  EXPECT_TRUE(status == 0 || status == 127 << 8) << status;
  return status == 0;
}

// A port that was free a moment ago.
Address free_address() {
  RendezvousOptions options;
  options.job_key = "the key of nobody";
  return RendezvousServer::start(options).value()->address();
}

TEST(Launch, WeftRun) {
  expect_all_right(shell(std::string(kClean) + WEFT " run --no-tag -n 4 -- " RANK));
}

TEST(Launch, WeftRunAsAPmixServer) {
  if (!weft_run_has_pmix()) GTEST_SKIP() << "libpmix is not here";
  expect_all_right(
      shell(std::string(kClean) + "WEFT_LAUNCHER=pmix " WEFT " run --no-tag -n 4 -- " RANK));
}

TEST(Launch, WeftRunOfAnMpiProgram) {
  if (std::string(MPI_RANK).empty()) GTEST_SKIP() << "Open MPI was not there to build with";
  if (!weft_run_has_pmix()) GTEST_SKIP() << "libpmix is not here";
  expect_all_right(shell(std::string(kClean) +
                         "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " WEFT
                         " run --pmix --no-tag -n 4 -- " MPI_RANK));
}

TEST(Launch, Mpirun) {
  if (!weft_run_has_pmix()) GTEST_SKIP() << "libpmix is not here";
  if (shell("command -v mpirun").status != 0) GTEST_SKIP() << "mpirun is not here";
  expect_all_right(shell(std::string(kClean) +
                         "mpirun --oversubscribe --allow-run-as-root --bind-to none -n 4 " RANK));
}

TEST(Launch, PlainEnvironment) {
  expect_all_right(shell(
      each_rank("WEFT_RANK=$r WEFT_SIZE=4 WEFT_RENDEZVOUS=" + free_address().to_string() + kKey)));
}

// torch's own server has MASTER_PORT; the next one is ours.
TEST(Launch, Torchrun) {
  const Address address = free_address();
  expect_all_right(
      shell(each_rank("RANK=$r WORLD_SIZE=4 LOCAL_RANK=$r LOCAL_WORLD_SIZE=4 MASTER_ADDR=" +
                      address.host + " MASTER_PORT=" + std::to_string(address.port - 1) + kKey)));
}

TEST(Launch, TorchrunWithARendezvousOfOurOwn) {
  expect_all_right(shell(
      each_rank("RANK=$r WORLD_SIZE=4 WEFT_RENDEZVOUS=" + free_address().to_string() + kKey)));
}

TEST(Launch, ThreadsOfOneProcess) {
  expect_all_right(shell(std::string(kClean) + RANK " 4"));
}

TEST(Launch, AProcessThatNobodyStartedIsAlone) {
  const Ran ran = shell(std::string(kClean) + RANK);
  EXPECT_EQ(ran.lines, (std::vector<std::string>{"rank 0 of 1: all right\n"}));
}

}  // namespace
}  // namespace weft
