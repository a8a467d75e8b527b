// `weft selftest` as a user has it: started as a process, judged by what it prints and its exit
// status. Over RDMA: tests/softroce.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/command.h"

namespace weft {
namespace {

std::string all_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

TEST(Selftest, PassesOverSharedMemoryAndTellsEveryCheck) {
  const Ran listed = run_weft("selftest --list");
  ASSERT_EQ(listed.exit_status, 0) << all_of(listed.errors);
  ASSERT_GT(listed.out.size(), 60U);
  const Ran ran = run_weft("selftest --transport shm --json");
  EXPECT_EQ(ran.exit_status, 0) << all_of(ran.out);
  ASSERT_EQ(ran.out.size(), listed.out.size() + 1) << "a line per check, and the summary";
  std::size_t skipped = 0;
  for (std::size_t i = 0; i < listed.out.size(); ++i) {
    const nlohmann::json row = nlohmann::json::parse(ran.out[i], nullptr, false);
    ASSERT_TRUE(row.is_object()) << ran.out[i];
    EXPECT_EQ(row.value("check", ""), listed.out[i]);
    EXPECT_EQ(row.value("transport", ""), "shm");
    EXPECT_GT(row.value("seconds", 0.0), 0);
    if (row.value("result", "") == "ok") continue;
    ++skipped;
    EXPECT_EQ(row.value("result", ""), "skipped") << row;
    EXPECT_NE(row.value("why", ""), "") << row;
  }
  const nlohmann::json summary = nlohmann::json::parse(ran.out.back(), nullptr, false);
  EXPECT_EQ(summary.value("failed", -1), 0) << summary;
  EXPECT_EQ(summary.value("skipped", 0U), skipped) << summary;
  EXPECT_EQ(summary.value("ok", 0U), listed.out.size() - skipped) << summary;
}

TEST(Selftest, ALineTellsNameTimeAndWhyOneWasSkipped) {
  const Ran ran = run_weft("selftest --transport shm --filter GivenUpInTheMiddle");
  EXPECT_EQ(ran.exit_status, 1) << "nothing was checked";
  ASSERT_EQ(ran.out.size(), 4U) << all_of(ran.out);
  EXPECT_EQ(ran.out[0], "shm");
  EXPECT_NE(ran.out[1].find("skipped"), std::string::npos) << ran.out[1];
  EXPECT_NE(ran.out[1].find(" s  Path.GivenUpInTheMiddle"), std::string::npos) << ran.out[1];
  EXPECT_NE(ran.out[1].find(": memory has no path"), std::string::npos) << ran.out[1];
  EXPECT_EQ(ran.out[2].find("0 ok, 0 failed, 1 skipped"), 0U) << ran.out[2];
}

TEST(Selftest, ACheckThatDoesNotEndIsEndedNamedAndFails) {
  const Ran ran = run_weft("selftest --transport shm --filter PingPongOfSleepers --seconds 0.01");
  EXPECT_EQ(ran.exit_status, 1);
  EXPECT_TRUE(mentions(ran.out, "out of time: it was ended after 0.01 s")) << all_of(ran.out);
  EXPECT_TRUE(mentions(ran.out, "failed: shm: Processes.PingPongOfSleepersLosesNoWakeUp"));
}

// Where no file may be long there is no shared memory. ThreadSanitizer writes a file of its own when it
// starts, unless there is no folder for it.
TEST(Selftest, ACheckThatFailsIsNamedWithItsReasonAndTheOthersGoOn) {
  const Ran ran = run_weft(
      "run -n 1 --no-tag -- sh -c 'ulimit -f 0; TEST_TMPDIR=/nowhere {weft} selftest "
      "--transport shm --filter Connect.'");
  EXPECT_EQ(ran.exit_status, 1);
  EXPECT_TRUE(mentions(ran.out, "larger than files may be (ulimit -f is 0 KiB)"))
      << all_of(ran.out);
  EXPECT_TRUE(mentions(ran.out, "Connect.OptionsWithoutMeaningDoNotOpen")) << all_of(ran.out);
  EXPECT_TRUE(mentions(ran.out, "1 ok, 5 failed, 0 skipped")) << all_of(ran.out);
  EXPECT_TRUE(mentions(ran.out, "failed: shm: Connect.EqualOptionsConnect"));
}

struct Wrong {
  const char* arguments;
  int exit_status;
  const char* named;
};

class BadSelftest : public testing::TestWithParam<Wrong> {};

TEST_P(BadSelftest, IsOneClearError) {
  const Ran ran = run_weft(std::string("selftest ") + GetParam().arguments);
  EXPECT_EQ(ran.exit_status, GetParam().exit_status);
  EXPECT_TRUE(ran.out.empty()) << all_of(ran.out);
  ASSERT_EQ(ran.errors.size(), 1U) << all_of(ran.errors);
  EXPECT_NE(ran.errors[0].find(GetParam().named), std::string::npos) << ran.errors[0];
}

INSTANTIATE_TEST_SUITE_P(
    Selftest, BadSelftest,
    testing::Values(Wrong{"--transport pigeons", 2, "--transport pigeons: there are shm, ib, ucx"},
                    Wrong{"--filter Nonsense", 2, "--filter Nonsense"},
                    Wrong{"--device eth0", 2, "--transport ib or ucx is missing"},
                    Wrong{"--transport ib --peer-device a", 2, "--device is missing"},
                    Wrong{"--transport ucx --device nix7", 1, "there are: "},
                    Wrong{"--transport ib --device nix7", 1, "--device nix7"}));

}  // namespace
}  // namespace weft
