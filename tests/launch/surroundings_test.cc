// Jobs where the system gives less than usual: containers, filters of system calls, limits. All ranks
// are right there, too.
#include "engine/bootstrap/bootstrap.h"
#include "tests/base/sanitized.h"
#include "tests/launch/shell.h"

namespace weft {
namespace {

// What each rank is started by, and whether that can be had here.
struct Wrapping {
  const char* name;
  std::string command;
};
void PrintTo(const Wrapping& wrapping, std::ostream* out) {
  *out << wrapping.name;
}

bool works(const std::string& command) {
  return shell(command + " true").status == 0;
}

const Wrapping kWrappings[] = {
    {"User", "unshare --user --map-root-user"},
    {"Pid", "unshare --pid --fork"},
    {"PidAndProc", "unshare --pid --fork --mount-proc"},
    {"UserPidAndProc", "unshare --user --map-root-user --pid --fork --mount-proc"},
};

class Containers : public testing::TestWithParam<Wrapping> {
 protected:
  void SetUp() override {
    if (!works(GetParam().command)) GTEST_SKIP() << "not permitted: " << GetParam().command;
  }
};

TEST_P(Containers, OfRanksThatWeftRunStarted) {
  expect_all_right(
      shell(std::string(kClean) + WEFT " run --no-tag -n 4 -- " + GetParam().command + " " RANK));
}

// As when a container runtime starts each rank: nobody tells them that they are on one machine.
TEST_P(Containers, OfRanksThatMeetByThemselves) {
  RendezvousOptions options;
  options.job_key = "the key of nobody";
  const Address address = RendezvousServer::start(options).value()->address();
  expect_all_right(shell(each_rank("WEFT_RANK=$r WEFT_SIZE=4 WEFT_TRANSPORTS=shm WEFT_RENDEZVOUS=" +
                                   address.to_string() + kKey + GetParam().command)));
}

INSTANTIATE_TEST_SUITE_P(All, Containers, testing::ValuesIn(kWrappings),
                         [](const auto& info) { return std::string(info.param.name); });

class Forbidden : public testing::TestWithParam<const char*> {};

TEST_P(Forbidden, SystemCallsAreDoneWithout) {
  const std::string command = std::string(FORBID " ") + GetParam() + " --";
  if (!works(command)) GTEST_SKIP() << "no filters of system calls here";
  expect_all_right(shell(std::string(kClean) + command + " " WEFT " run --no-tag -n 4 -- " RANK));
}

INSTANTIATE_TEST_SUITE_P(All, Forbidden,
                         testing::Values("memfd_create", "pidfd_open", "sched_setaffinity",
                                         "memfd_create pidfd_open sched_setaffinity"));

TEST(Forbidden, BindingThatWasAskedForIsAnError) {
  const std::string command = FORBID " sched_setaffinity --";
  if (!works(command)) GTEST_SKIP() << "no filters of system calls here";
  const Ran ran =
      shell(std::string(kClean) + command + " " WEFT " run --bind-to core -n 2 -- " RANK);
  EXPECT_NE(ran.status, 0);
  ASSERT_EQ(ran.lines.size(), 1U);
  EXPECT_NE(ran.lines[0].find("bind to core"), std::string::npos) << ran.lines[0];
}

TEST(Limits, OfAddressSpaceAreSharedOut) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer needs more address space than the limit leaves";
  expect_all_right(shell(std::string(kClean) + "sh -c 'ulimit -v 4000000; exec " WEFT
                                               " run --no-tag -n 4 -- " RANK "'"));
}

}  // namespace
}  // namespace weft
