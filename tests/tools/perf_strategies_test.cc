// weft perf strategies: each strategy with and without a slow rank, on both tasks, and what is refused.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

std::vector<nlohmann::json> rows_of(const std::string& arguments) {
  const Ran ran = run_weft("perf strategies --json - " + arguments);
  EXPECT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
  std::vector<nlohmann::json> rows;
  for (const std::string& line : ran.out) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

TEST(PerfStrategies, AllRunWithAndWithoutASlowRank) {
  const std::vector<std::string> all{"parameter_server",
                                     "sharded_server",
                                     "allreduce",
                                     "ring",
                                     "hierarchical",
                                     "dpsgd",
                                     "dpsgd:awc",
                                     "dmsgd",
                                     "qg_dmsgd",
                                     "ad_psgd",
                                     "sgp/peers=2",
                                     "local_sgd",
                                     "diloco",
                                     "noloco",
                                     "prague",
                                     "prague:random",
                                     "prague:static",
                                     "canary",
                                     "canary:bulk",
                                     "canary:bounded",
                                     "canary:asynchronous"};
  std::string list;
  for (const std::string& each : all) list += (list.empty() ? "" : ",") + each;
  const Folder folder;
  const auto rows =
      rows_of("--ranks 4 --compute-ms 0.2 --steps 12 --size 4K --straggler +2x --strategies " +
              list + " --svg " + folder.path("bars.svg"));
  ASSERT_EQ(rows.size(), 2 * all.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at("strategy"), all[i / 2]);
    EXPECT_EQ(rows[i].at("straggler"), i % 2 == 0 ? 0 : 2);
    EXPECT_EQ(rows[i].at("steps"), 48);
    EXPECT_GT(rows[i].at("steps_per_s"), 0);
    EXPECT_GT(rows[i].at("bytes_per_step"), 0);
    if (all[i / 2] == "parameter_server") {
      EXPECT_EQ(rows[i].at("busiest_bytes_per_step"), 3 * 4096);
    }
  }
  std::ifstream picture(folder.path("bars.svg"));
  EXPECT_TRUE(picture.good());
}

// Whoever is slow, it stops the ranks of an allreduce at its own pace, all after the same step.
TEST(PerfStrategies, RanksStopTogetherWhenTheTimeIsOver) {
  for (const auto& row :
       rows_of("--ranks 3 --compute-ms 1 --seconds 0.05 --size 4K --straggler +5x "
               "--strategies allreduce,local_sgd/section=4")) {
    EXPECT_EQ(row.at("steps").get<int>() % 3, 0);
    if (row.at("strategy") == "allreduce") {
      EXPECT_EQ(row.at("consensus"), 0) << row.dump();
    }
  }
}

TEST(PerfStrategies, DigitsAreLearned) {
  const auto rows = rows_of("--ranks 4 --task digits --data " WEFT_DIGITS
                            " --compute-ms 0 --steps 300 --straggler none --loss 0.5 --strategies "
                            "allreduce,diloco,noloco");
  ASSERT_EQ(rows.size(), 3U);
  for (const auto& row : rows) {
    EXPECT_GT(row.at("accuracy"), 0.93) << row.dump();
    EXPECT_LT(row.at("steps_to_loss"), 300);
    EXPECT_GT(row.at("seconds_to_loss"), 0);
  }
  const double all = rows[0].at("bytes_per_step");
  for (const std::size_t local : {1, 2})
    EXPECT_GE(all / rows[local].at("bytes_per_step").get<double>(), 8) << rows[local].dump();
}

// Gradients to three others, by the owners of shares, and those as f16.
TEST(PerfStrategies, AMeshAndACompressionSendFewerBytes) {
  const auto rows = rows_of(
      "--ranks 4 --compute-ms 0 --steps 5 --size 64K --straggler none --strategies "
      "canary:bulk,canary:bulk/topology=mesh,canary:bulk/topology=mesh/compression=f16");
  ASSERT_EQ(rows.size(), 3U);
  const auto bytes = [&](std::size_t row) { return rows[row].at("bytes_per_step").get<double>(); };
  EXPECT_NEAR(bytes(0), 3 * 65536, 1);
  EXPECT_NEAR(bytes(1) / bytes(0), 0.5, 0.01);
  EXPECT_NEAR(bytes(2) / bytes(1), 0.5, 0.02);
}

TEST(PerfStrategies, WhatHasNoMeaningIsRefused) {
  const Folder folder;
  folder.write("short.csv", "a,b\n1,2\n");
  for (const std::string& arguments :
       {std::string("--strategies hogwild"), std::string("--strategies sgp/peers"),
        std::string("--strategies sgp/peers=x"), std::string("--strategies ring/peers=1"),
        std::string("--strategies canary/topology=ring"), std::string("--straggler 2x"),
        std::string("--straggler +0x"), std::string("--task letters"),
        "--task digits --data " + folder.path("short.csv"),
        "--task digits --data " + folder.path("no"), std::string("--ranks 0"),
        std::string("--ranks 4 --hosts 5"), std::string("--size 5"), std::string("--graph octagon"),
        std::string("--svg /nowhere/a.svg")}) {
    const Ran ran = run_weft("perf strategies --seconds 0.01 --compute-ms 0 " + arguments);
    EXPECT_NE(ran.exit_status, 0) << arguments;
    EXPECT_FALSE(ran.errors.empty()) << arguments;
  }
}

}  // namespace
}  // namespace weft
