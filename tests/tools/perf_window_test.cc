// weft perf win_put and the other operations of windows, from end to end: two ranks as processes,
// every result checked, the numbers as JSON.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

using Rows = std::vector<nlohmann::json>;

Rows rows_of(const std::string& arguments) {
  const Ran ran = run_weft("perf " + arguments + " --seconds 0.02 --json -");
  EXPECT_EQ(ran.exit_status, 0) << arguments << (ran.errors.empty() ? "" : ran.errors[0]);
  Rows rows;
  for (const std::string& line : ran.out) {
    rows.push_back(nlohmann::json::parse(line, nullptr, false));
    EXPECT_TRUE(rows.back().is_object()) << line;
  }
  return rows;
}

void expect_row(const nlohmann::json& row) {
  EXPECT_EQ(row.value("ranks", 0), 2) << row;
  EXPECT_GT(row.value("per_s", 0.0), 0) << row;
  EXPECT_GT(row.value("min_us", 0.0), 0) << row;
  EXPECT_LE(row.value("min_us", 0.0), row.value("p50_us", 0.0)) << row;
  EXPECT_LE(row.value("p50_us", 0.0), row.value("p99_us", 0.0)) << row;
}

class EveryWindowOperation : public testing::TestWithParam<const char*> {};

TEST_P(EveryWindowOperation, IsRightAndMeasuredBesideACopy) {
  const Rows rows = rows_of(std::string(GetParam()) + " --sizes 4,100,64K,1M --check");
  ASSERT_EQ(rows.size(), 4U);
  for (const nlohmann::json& row : rows) {
    expect_row(row);
    EXPECT_EQ(row.value("target", ""), "waits");
    EXPECT_GT(row.value("limit_us", 0.0), 0) << row;
    EXPECT_GT(row.value("share", 0.0), 0) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Perf, EveryWindowOperation,
                         testing::Values("win_put", "win_get", "win_accumulate",
                                         "win_put --memory private", "win_get --memory private",
                                         "win_put --in-process"));

// A window over a network has no limit of memory.
TEST(PerfWindow, GoesOverANetwork) {
  if (WEFT_HAS_UCX == 0) GTEST_SKIP() << "this build has no network for one machine";
  for (const char* what : {"win_put --check", "win_get --check", "win_accumulate --check",
                           "win_pages --check", "mutex"}) {
    const Rows rows = rows_of(std::string(what) + " --sizes 8K --transport ucx");
    ASSERT_EQ(rows.size(), 1U) << what;
    expect_row(rows[0]);
    EXPECT_FALSE(rows[0].contains("share")) << rows[0];
  }
}

TEST(PerfWindow, TellsHowSoonASmallPutIsSeen) {
  const Rows rows = rows_of("win_put --sizes 4,8K");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_GT(rows[0].value("visible_us", 0.0), 0) << rows[0];
  EXPECT_GT(rows[0].value("line_us", 0.0), 0) << rows[0];
  EXPECT_GT(rows[0].value("visible_ratio", 0.0), 0) << rows[0];
  EXPECT_FALSE(rows[1].contains("visible_us")) << "only small puts are answered";
}

TEST(PerfWindow, TheTargetDoesWhatItIsTold) {
  for (const char* target : {"sleeps", "computes", "stopped"}) {
    const Rows rows = rows_of(std::string("win_put --sizes 8K --check --target ") + target);
    ASSERT_EQ(rows.size(), 1U) << target;
    expect_row(rows[0]);
    EXPECT_EQ(rows[0].value("target", ""), target);
  }
}

TEST(PerfWindow, PagesGoTogetherAndOneByOne) {
  const Rows rows = rows_of("win_pages --check");
  ASSERT_EQ(rows.size(), 1U);
  expect_row(rows[0]);
  EXPECT_EQ(rows[0].value("pages", 0), 256);
  EXPECT_EQ(rows[0].value("bytes", 0), 256 << 10);
  EXPECT_GT(rows[0].value("singles_p50_us", 0.0), 0) << rows[0];
  EXPECT_GT(rows[0].value("pages_speedup", 0.0), 0) << rows[0];
}

TEST(PerfWindow, AMutexHasNoBytes) {
  const Rows rows = rows_of("mutex");
  ASSERT_EQ(rows.size(), 1U);
  expect_row(rows[0]);
  EXPECT_EQ(rows[0].value("bytes", -1), 0);
  EXPECT_FALSE(rows[0].contains("share"));
}

TEST(PerfWindow, PeersAreMeasuredInTurn) {
  const auto peer = std::filesystem::path(WEFT_PROGRAM).parent_path() / "peer_openmpi";
  if (!std::filesystem::exists(peer)) GTEST_SKIP() << "built without MPI";
  for (const char* name : {"openmpi", "openmpi-create"}) {
    for (const char* operation : {"win_put", "win_get", "win_accumulate"}) {
      const Rows rows = rows_of(std::string(operation) + " --sizes 4,64K --against " + name);
      ASSERT_EQ(rows.size(), 2U) << operation;
      for (const nlohmann::json& row : rows) {
        EXPECT_EQ(row.value("peer", ""), name);
        EXPECT_GT(row.value("peer_p50_us", 0.0), 0) << row;
        EXPECT_GT(row.value("speedup", 0.0), 0) << row;
      }
    }
  }
}

TEST(PerfWindow, IsDrawn) {
  const Folder folder;
  const Ran ran =
      run_weft("perf win_put --sizes 64K,128K --seconds 0.02 --svg " + folder.path("window.svg"));
  EXPECT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
  EXPECT_GT(std::filesystem::file_size(folder.path("window.svg")), 0U);
}

struct Wrong {
  const char* arguments;
  const char* named;
};

class BadWindow : public testing::TestWithParam<Wrong> {};

TEST_P(BadWindow, IsOneClearError) {
  const Ran ran = run_weft(std::string("perf ") + GetParam().arguments);
  EXPECT_EQ(ran.exit_status, 2);
  EXPECT_TRUE(ran.out.empty());
  ASSERT_EQ(ran.errors.size(), 1U);
  EXPECT_NE(ran.errors[0].find(GetParam().named), std::string::npos) << ran.errors[0];
}

INSTANTIATE_TEST_SUITE_P(
    Perf, BadWindow,
    testing::Values(Wrong{"win_put --ranks 4", "--ranks 4"},
                    Wrong{"win_put --target dreams", "dreams"},
                    Wrong{"win_put --target stopped --in-process", "--target stopped"},
                    Wrong{"win_put --type i32", "i32"}, Wrong{"win_put --dynamic", "--dynamic"},
                    Wrong{"win_put --in-place", "--in-place"},
                    Wrong{"win_put --memory-use", "--memory-use"},
                    Wrong{"win_put --in-flight 4", "--in-flight"},
                    Wrong{"win_put --algorithm ring", "--algorithm"},
                    Wrong{"win_put --against openmpi-huge", "openmpi-huge"},
                    Wrong{"allreduce --against openmpi-create", "openmpi-create"},
                    Wrong{"win_pages --against openmpi", "win_pages"},
                    Wrong{"mutex --against openmpi", "mutex"}, Wrong{"mutex --check", "--check"},
                    Wrong{"win_push", "unknown operation 'win_push'"}));

}  // namespace
}  // namespace weft
