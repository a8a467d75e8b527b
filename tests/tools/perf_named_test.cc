// weft perf named: a model's tensors by name, checked, and what is wrong with a list of tensors.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

TEST(PerfNamed, EachWayIsRightAndCounted) {
  const Ran ran = run_weft(
      "perf named --ranks 3 --tensors 30x1000 --compute 0.5 --check --autotune --seconds 0.1 "
      "--json "
      "-");
  ASSERT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
  std::vector<std::string> ways;
  for (const std::string& line : ran.out) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    const std::string way = row.at("way");
    ways.push_back(way);
    EXPECT_EQ(row.at("tensors"), 30) << way;
    EXPECT_EQ(row.at("bytes"), 120'000) << way;
    EXPECT_GE(row.at("p50_us"), 500) << way;  // the computing
    EXPECT_GT(row.at("ratio"), 0) << way;
    EXPECT_EQ(row.at("coordinator_messages"), 0) << way;  // the names are known
    double names = 0;
    for (std::size_t bin = 0; bin < row.at("batches_by_names").size(); ++bin)
      names += row.at("batches_by_names")[bin].get<double>();
    EXPECT_DOUBLE_EQ(names, row.at("batches")) << way;
    if (way.starts_with("unfused")) {
      EXPECT_EQ(row.at("batches_by_names")[0], row.at("batches")) << way;
    }
  }
  EXPECT_EQ(ways, (std::vector<std::string>{"group", "names", "tuned", "unfused", "neighbors",
                                            "unfused_neighbors"}));
}

TEST(PerfNamed, TheTableHasTheFusionHistogram) {
  const Folder folder;
  folder.write("model", "# two layers\n\nlayer 1.weight\t3x4x5\nlayer 1.bias 4\n");
  const Ran ran = run_weft("perf named --ranks 2 --seconds 0.02 --tensors " + folder.path("model"));
  ASSERT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
  EXPECT_TRUE(mentions(ran.out, "2 tensors of " + folder.path("model")));
  EXPECT_TRUE(mentions(ran.out, "batches by names: 1.0 of 2-3"));
}

TEST(PerfNamed, WhatCannotBeMeasuredIsRefused) {
  for (const char* arguments :
       {"--tensors resnet51", "--compute -1", "--type f64", "--dynamic", "--against openmpi"}) {
    const Ran ran = run_weft(std::string("perf named ") + arguments);
    EXPECT_EQ(ran.exit_status, 2) << arguments;
  }
}

}  // namespace
}  // namespace weft
