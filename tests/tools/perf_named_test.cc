// weft perf named: a model's tensors by name, checked, and what is wrong with a list of tensors.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

TEST(PerfNamed, EachWayIsRightAndCounted) {
  const Ran ran = run_weft(
      "perf named --ranks 3 --tensors 30x1000 --compute 0.5 --check --seconds 0.1 --json -");
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
  EXPECT_EQ(ways, (std::vector<std::string>{"group", "names", "unfused", "neighbors",
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

TEST(PerfNamed, ModelsHaveTheParametersOfTheirPapers) {
  const auto head = [](const std::string& set) {
    const Ran ran = run_weft("perf named --ranks 1 --seconds 0.001 --json - --tensors " + set);
    EXPECT_EQ(ran.exit_status, 0);
    return ran.out.empty() ? nlohmann::json() : nlohmann::json::parse(ran.out[0], nullptr, false);
  };
  const nlohmann::json resnet = head("resnet50");
  EXPECT_EQ(resnet.at("tensors"), 161);
  EXPECT_EQ(resnet.at("bytes"), 25'557'032 * 4);
}

TEST(PerfNamed, WhatIsWrongWithAListIsNamed) {
  const Folder folder;
  folder.write("shape", "a 3x4\nb 3y4\n");
  folder.write("zero", "a 0\n");
  folder.write("twice", "a 3\na 3\n");
  folder.write("large", "a 99999999x99999999\n");
  folder.write("empty", "# nothing\n");
  folder.write("nameless", "34\n");
  const auto said = [](const std::string& set, const std::string& what) {
    const Ran ran = run_weft("perf named --ranks 2 --tensors " + set);
    EXPECT_EQ(ran.exit_status, 2) << set;
    EXPECT_TRUE(mentions(ran.errors, what)) << set << (ran.errors.empty() ? "" : ran.errors[0]);
  };
  said(folder.path("shape"), "line 2: expected a name and a shape such as 64x3x7x7, not b 3y4");
  said(folder.path("zero"), "line 1");
  said(folder.path("twice"), "line 2: a comes twice");
  said(folder.path("large"), "line 1");
  said(folder.path("empty"), "no tensor is in it");
  said(folder.path("nameless"), "line 1");
  said("resnet51", "--tensors resnet51: neither a set");
  EXPECT_EQ(run_weft("perf named --compute -1").exit_status, 2);
  EXPECT_EQ(run_weft("perf named --type f64").exit_status, 2);
  EXPECT_EQ(run_weft("perf named --dynamic").exit_status, 2);
  EXPECT_EQ(run_weft("perf named --against openmpi").exit_status, 2);
}

}  // namespace
}  // namespace weft
