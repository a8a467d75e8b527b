// Ctrl-C in commands that work long: what there is so far stays, and files are valid.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/folder.h"
#include "tests/tools/terminal.h"

namespace weft {
namespace {

std::string all_of(const Ran& ran) {
  std::string text;
  for (const std::string& line : ran.out) text += line + '\n';
  return text;
}

// So many lines of JSON; -1: one of them is none.
int rows_in(const std::string& text) {
  int rows = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line); ++rows)
    if (!nlohmann::json::parse(line, nullptr, false).is_object()) return -1;
  return rows;
}

std::string repeated(const std::string& word, int times) {
  std::string list = word;
  for (int i = 1; i < times; ++i) list += "," + word;
  return list;
}

// The search would take an hour.
TEST(Stop, AMapHasTheBestSeatsSoFar) {
  const Folder folder;
  const Ran ran = interrupt_weft("map --cluster " WEFT_CLUSTERS
                                 "/two-leaves.toml --graph ring --place --seconds 3600 --swaps "
                                 "1000000000 --json " +
                                     folder.path("best.json"),
                                 "searching for seats");
  EXPECT_EQ(ran.exit_status, 130) << all_of(ran);
  EXPECT_TRUE(mentions(ran.out, "interrupted: the best seats so far")) << all_of(ran);
  const auto map = nlohmann::json::parse(folder.content("best.json"), nullptr, false);
  ASSERT_TRUE(map.is_object());
  EXPECT_EQ(map["complete"], false);
  EXPECT_GT(map["placement"]["swaps"], 0);
  EXPECT_EQ(map["ranks"].size(), 128U);
}

// Hundreds of rows; the signal comes when the first is there.
TEST(Stop, PredictKeepsItsRows) {
  const Folder folder;
  const Ran ran = interrupt_weft(
      fmt::format("predict --like 'synthetic:pack:1 core:8 pu:1' --correct {} --machines 128 "
                  "--operation allreduce --algorithm ring --every-rank --sizes {} --lanes "
                  "1,2,3,4,5,6,7,8 --json {} --svg {}",
                  (folder.write("nic.toml", "[[nic]]\nname = \"mlx5_0\"\nmbit_per_s = 100_000\n"),
                   folder.path("nic.toml")),
                  repeated("1M", 64), folder.path("rows.json"), folder.path("curves.svg")),
      "allreduce          ring");
  EXPECT_EQ(ran.exit_status, 130) << all_of(ran);
  const int rows = rows_in(folder.content("rows.json"));
  EXPECT_GE(rows, 1);
  EXPECT_LT(rows, 512);
  EXPECT_TRUE(mentions(ran.out, fmt::format("interrupted after {} rows", rows))) << all_of(ran);
  EXPECT_NE(folder.content("curves.svg").find("</svg>"), std::string::npos);
}

TEST(Stop, PerfKeepsItsRows) {
  const Folder folder;
  const Ran ran =
      interrupt_weft(fmt::format("perf allreduce --ranks 2 --seconds 0.2 --sizes {} --json {}",
                                 repeated("64", 1000), folder.path("rows.json")),
                     "    64 ");  // of a row, and no time of the head
  EXPECT_EQ(ran.exit_status, 130) << all_of(ran);
  const int rows = rows_in(folder.content("rows.json"));
  EXPECT_GE(rows, 1);
  EXPECT_LT(rows, 1000);
  const Ran drawn = run_weft(
      fmt::format("perf --from {} --svg {}", folder.path("rows.json"), folder.path("rows.svg")));
  EXPECT_EQ(drawn.exit_status, 0);
}

}  // namespace
}  // namespace weft
