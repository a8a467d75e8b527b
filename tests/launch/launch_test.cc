// One program, every launcher: the ranks find each other and their results are right, whoever
// started them.
#include <gtest/gtest.h>

#include <string>

#include "engine/bootstrap/bootstrap.h"
#include "tests/launch/shell.h"

namespace weft {
namespace {

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
