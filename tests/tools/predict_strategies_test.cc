// weft predict strategies: the table, JSON, drawings, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

const std::string kForecast = "predict strategies ";

std::vector<nlohmann::json> rows_of(const std::string& arguments) {
  const Ran ran = run_weft(arguments + " --json -");
  EXPECT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
  std::vector<nlohmann::json> rows;
  for (const std::string& line : ran.out) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

TEST(PredictStrategies, AllOfThemForAThousandRanks) {
  const std::string asked = kForecast + "--steps 8";
  const std::vector<nlohmann::json> rows = rows_of(asked);
  EXPECT_EQ(rows, rows_of(asked));  // nothing is left to chance
  ASSERT_GE(rows.size(), 3U * 17);
  std::map<std::string, nlohmann::json> alone;
  for (const nlohmann::json& row : rows) {
    EXPECT_EQ(row["ranks"], 1024);
    EXPECT_GT(row["steps_per_s"], 0) << row;
    EXPECT_GT(row["bytes_per_step"], 0) << row;
    EXPECT_LE(row["median_share"], row["busiest_share"]) << row;
    if (row["straggler"] == 0) alone[row["strategy"]] = row;
  }
  // Canary, Fig. 7.
  EXPECT_EQ(alone.at("parameter_server")["busiest"], "node0");
  EXPECT_GT(alone.at("parameter_server")["busiest_share"], 0.95);
  EXPECT_LT(alone.at("parameter_server")["median_share"], 0.05);
  EXPECT_NEAR(alone.at("allreduce")["busiest_share"], alone.at("allreduce")["median_share"], 0.001);
}

TEST(PredictStrategies, ATableAndDrawings) {
  const Folder folder;
  const Ran ran = run_weft(kForecast + "--strategies allreduce,diloco/section=4 --ranks 16 " +
                           "--straggler +2x --size 0 --latency 0 --spread 0 --svg " +
                           folder.path("steps.svg") + " --links-svg " + folder.path("links.svg"));
  ASSERT_EQ(ran.exit_status, 0) << ran.errors[0];
  EXPECT_TRUE(mentions(ran.out, "16 ranks, 8 on each machine, which compute 20 ms"));
  EXPECT_TRUE(mentions(ran.out, "diloco/section=4                        none       800.0   1.00"));
  EXPECT_TRUE(mentions(ran.out, "diloco/section=4                         +2x       266.7   0.33"));
  EXPECT_NE(folder.content("steps.svg").find("one slow by +2x"), std::string::npos);
  EXPECT_NE(folder.content("links.svg").find("the median one"), std::string::npos);
}

TEST(PredictStrategies, ACompressedModelIsSmaller) {
  const std::vector<nlohmann::json> rows =
      rows_of(kForecast + "--strategies dpsgd,dpsgd/compression=sketch --straggler none --ranks 8");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_LT(rows[1]["bytes_per_step"].get<double>(),
            0.27 * rows[0]["bytes_per_step"].get<double>());
}

TEST(PredictStrategies, TheGeneratorIsMeasured) {
  const std::vector<nlohmann::json> rows =
      rows_of(kForecast + "--strategies prague --ranks 64 --generator --straggler none");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1]["op"], "generator");
  EXPECT_GT(rows[1]["us_per_request"], 0);
}

TEST(PredictStrategies, WhatHasNoMeaningIsRefusedByItsName) {
  const std::map<std::string, std::string> asked{
      {"--strategies hogwild", "--strategies hogwild"},
      {"--strategies sgp/peers=3", "peers is 3"},
      {"--strategies ring/section=2", "\"ring\" has no section"},
      {"--strategies ring/compression=sketch", "\"ring\" has no compression"},
      {"--strategies ring/topology=mesh", "\"ring\" has no topology"},
      {"--strategies ring/rate=1", "--strategies ring/rate=1"},
      {"--strategies canary/staleness=3", "--strategies canary/staleness=3"},
      {"--straggler 2x", "--straggler 2x"},
      {"--ranks 0", "--ranks"},
      {"--ranks 12", "--per-machine 8"},
      {"--per-machine 2000", "--per-machine 2000"},
      {"--graph octagon", "--graph octagon"},
      {"--size 5Q", "--size"},
      {"--gbit 0", "--gbit"},
      {"--compute-ms 0", "--compute-ms"},
      {"--spread 100", "--spread"},
      {"--steps 3", "--steps"},
      {"--svg /nowhere/a.svg", "/nowhere/a.svg"}};
  for (const auto& [arguments, named] : asked) {
    const Ran ran = run_weft(kForecast + arguments);
    EXPECT_EQ(ran.exit_status, arguments.starts_with("--svg") ? 1 : 2) << arguments;
    EXPECT_TRUE(mentions(ran.errors, named)) << arguments;
    EXPECT_TRUE(ran.out.empty()) << arguments;
  }
}

// Ranks that are threads, and sleep where they would compute. Only their network is another one.
TEST(PredictStrategies, SixteenMeasuredRanksDoWhatIsPredicted) {
  const std::string both =
      "strategies --strategies allreduce,ad_psgd --ranks 16 --straggler +2x --compute-ms 20 "
      "--size 64K ";
  const std::vector<nlohmann::json> measured = rows_of("perf " + both + "--seconds 3");
  const std::vector<nlohmann::json> predicted =
      rows_of("predict " + both + "--per-machine 16 --spread 0");
  ASSERT_EQ(measured.size(), predicted.size());
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const double steps = predicted[i]["steps_per_s"];
    EXPECT_NEAR(measured[i]["steps_per_s"], steps, 0.25 * steps) << measured[i];
    EXPECT_NEAR(measured[i]["kept"], predicted[i]["kept"], 0.1) << measured[i];
  }
}

}  // namespace
}  // namespace weft
