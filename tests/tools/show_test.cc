// The subcommands that show things and start nothing.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/tools/command.h"

namespace weft {
namespace {

TEST(ShowGraph, TellsEdgesWeightsAndMixing) {
  const Ran ran = run_weft("graph exponential 8");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "8 ranks, 24 edges"));
  EXPECT_TRUE(mentions(ran.out, "spectral gap"));
  EXPECT_TRUE(mentions(ran.out, "rank 7"));
}

TEST(ShowGraph, TellsAScheduleStepByStep) {
  const Ran ran = run_weft("graph one_peer_exponential 8");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "step 2"));
}

TEST(ShowGraph, DrawsAnSvg) {
  const auto path = std::filesystem::path(testing::TempDir()) / "weft-graph.svg";
  EXPECT_EQ(run_weft("graph ring 6 --svg " + path.string()).exit_status, 0);
  std::ifstream file(path);
  std::string first;
  std::getline(file, first);
  EXPECT_NE(first.find("<svg"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(ShowGraph, ErrorsNameWhatIsWrong) {
  const Ran unknown = run_weft("graph nonsense 8");
  EXPECT_EQ(unknown.exit_status, 2);
  ASSERT_EQ(unknown.errors.size(), 1U);
  EXPECT_NE(unknown.errors[0].find("'nonsense'"), std::string::npos);
  EXPECT_EQ(run_weft("graph ring 0").exit_status, 2);
  EXPECT_EQ(run_weft("graph ring").exit_status, 2);
  EXPECT_EQ(run_weft("graph ring 4 --svg /nonexistent/file.svg").exit_status, 1);
}

TEST(ShowMachine, TellsWhatIsThere) {
  const Ran ran = run_weft("machine");
  EXPECT_EQ(ran.exit_status, 0);
  for (const char* word : {"processor", "cache", "memory", "huge pages", "RDMA"}) {
    EXPECT_TRUE(mentions(ran.out, word)) << word;
  }
}

TEST(Usage, WithoutASubcommandItIsAnError) {
  EXPECT_EQ(run_weft("").exit_status, 2);
  EXPECT_EQ(run_weft("--help").exit_status, 0);
}

}  // namespace
}  // namespace weft
