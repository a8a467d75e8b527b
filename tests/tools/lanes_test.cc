// Lanes in weft predict and weft map: what several threads of a rank would do to its times.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

constexpr double kMiB = 1 << 20;

// Two machines with four cores and one rank each, and two rails of 100 GB/s.
class LanesOfRanks : public testing::Test {
 protected:
  LanesOfRanks() {
    folder_.write("nics.toml",
                  "[[nic]]\nname = \"eth0\"\nrdma = \"mlx5_0\"\n"
                  "[[nic]]\nname = \"eth1\"\nrdma = \"mlx5_1\"\n");
    write("", 4);
  }
  void write(const std::string& memory, int cores) const {
    std::string text = fmt::format(
        "[[machine]]\ncount = 2\nlike = \"synthetic:core:{} pu:1\"\ncorrect = \"nics.toml\"\n"
        "ranks = 1\n",
        cores);
    for (int rail = 0; rail < 2; ++rail)
      text += fmt::format("[[rail]]\nnics = [\"eth{}\"]\ngbit_per_s = 800\n", rail);
    folder_.write("two.toml", text + memory);
  }
  [[nodiscard]] Ran run(const std::string& command, const std::string& words) const {
    return run_weft(command + " --cluster " + folder_.path("two.toml") + " --graph ring " + words);
  }
  [[nodiscard]] std::vector<nlohmann::json> predicted(
      const std::string& words, const std::string& operation = "neighbor_allreduce") const {
    const Ran ran = run("predict", "--json - --operation " + operation + " " + words);
    EXPECT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
    std::vector<nlohmann::json> rows;
    for (const std::string& line : ran.out)
      rows.push_back(nlohmann::json::parse(line, nullptr, false));
    return rows;
  }
  [[nodiscard]] nlohmann::json mapped(const std::string& words) const {
    const Ran ran = run("map", "--json - " + words);
    EXPECT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
    std::string text;
    for (const std::string& line : ran.out) text += line;
    return nlohmann::json::parse(text, nullptr, false);
  }
  [[nodiscard]] std::string content(const std::string& name) const { return folder_.content(name); }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path(name); }

 private:
  Folder folder_;
};

// One core reads 10 GB/s, and each byte of the result is made of two.
TEST_F(LanesOfRanks, PredictionsPromiseNoMoreThanACoreCanSum) {
  const std::vector<nlohmann::json> rows = predicted("--sizes 64M --lanes 1,2,4");
  ASSERT_EQ(rows.size(), 3U);
  for (const nlohmann::json& row : rows) {
    const double one = 2 * 64 * kMiB / 10e3;
    EXPECT_NEAR(row["us"].get<double>(), one / row["lanes"].get<int>(), one / 50);
    EXPECT_EQ(row["lanes_used"], row["lanes"]);
    EXPECT_GT(row["lane_share"].get<double>(), 0.9);
  }
}

TEST_F(LanesOfRanks, ARateOfTheFileOrOfAnOptionWins) {
  const auto us = [&](const std::string& words) {
    return predicted("--sizes 64M " + words).at(0)["us"].get<double>();
  };
  const double ten = us("");
  EXPECT_NEAR(us("--combine 20"), ten / 2, ten / 50);
  write("[memory]\ncombine_gbyte_per_s = 5\n", 4);
  EXPECT_NEAR(us(""), ten * 2, ten / 50);
  EXPECT_NEAR(us("--combine 20"), ten / 2, ten / 50);
  EXPECT_NEAR(mapped("--bytes 64M")["us"].get<double>(), ten * 2, ten / 50);
  EXPECT_NEAR(mapped("--bytes 64M --combine 20")["us"].get<double>(), ten / 2, ten / 50);
}

TEST_F(LanesOfRanks, SmallMessagesAndOtherOperationsHaveOne) {
  const std::vector<nlohmann::json> rows =
      predicted("--sizes 1M --lanes 4", "neighbor_allreduce,scatter");
  ASSERT_EQ(rows.size(), 2U);
  for (const nlohmann::json& row : rows) {
    EXPECT_EQ(row["lanes"], 4);
    EXPECT_EQ(row["lanes_used"], 1);
  }
  EXPECT_TRUE(mentions(run("predict", "--sizes 1M --lanes 4").out, "1 of 4"));
  EXPECT_EQ(mapped("--bytes 2M --lanes 4")["combining"]["lanes"], 2);
}

TEST_F(LanesOfRanks, OneNumberIsRecommendedWithinTheCores) {
  const Ran ran = run("predict", "--operation neighbor_allreduce --sizes 1M,64M");
  EXPECT_TRUE(mentions(ran.out, "lanes: neighbor_allreduce direct of 64M on 2 ranks: combining "));
  EXPECT_TRUE(mentions(ran.out, "of the critical path: 4 lanes would take "));
  EXPECT_TRUE(mentions(ran.out, "(a rank has 4 cores)"));
  EXPECT_FALSE(mentions(ran.out, "of 1M on 2 ranks"));
  const auto advised = [&] { return predicted("--sizes 64M --explain").at(0)["advised"]; };
  EXPECT_EQ(advised()["lanes"], 4);
  EXPECT_LT(advised()["us"].get<double>(), 4000);
  write("", 1);
  EXPECT_TRUE(advised().is_null());
  EXPECT_TRUE(mentions(run("predict", "--operation neighbor_allreduce --sizes 64M").out,
                       "and no core for a second lane (a rank has 1 core)"));
  // Where links are what counts, nothing is.
  write("[memory]\ncombine_gbyte_per_s = 10_000\n", 4);
  EXPECT_FALSE(mentions(run("predict", "--sizes 64M --graph ring").out, "lanes would take"));
}

TEST_F(LanesOfRanks, MapsSayWhatCombiningNeeds) {
  const nlohmann::json one = mapped("--bytes 64M");
  EXPECT_NEAR(one["us"].get<double>(), 2 * 64 * kMiB / 10e3, 1);
  EXPECT_NEAR(one["links_us"].get<double>(), 64 * kMiB / 200e3, 1);
  EXPECT_EQ(one["combining"]["advised"]["lanes"], 4);
  EXPECT_NEAR(mapped("--bytes 64M --lanes 4")["us"].get<double>(), 2 * 64 * kMiB / 40e3, 1);
  const Ran ran = run("map", "--bytes 64M");
  EXPECT_TRUE(
      mentions(ran.out, "reads 128M of terms with one lane of 10 GB/s; links need 335.54 us"));
  EXPECT_TRUE(mentions(ran.out, "--lanes 4: 3355.44 us (a rank has 4 cores)"));
  write("[memory]\ncombine_gbyte_per_s = 10_000\n", 4);
  EXPECT_FALSE(mentions(run("map", "--bytes 64M").out, "combining takes longest"));
}

TEST_F(LanesOfRanks, CurvesGoOverLanesWhereNothingElseDiffers) {
  EXPECT_EQ(run("predict", "--operation neighbor_allreduce --sizes 64M --lanes 1,2,4 --svg " +
                               path("lanes.svg"))
                .exit_status,
            0);
  EXPECT_NE(content("lanes.svg").find("lanes of a rank"), std::string::npos);
  EXPECT_EQ(run("predict", "--operation neighbor_allreduce --sizes 16M,64M --lanes 1,4 --svg " +
                               path("sizes.svg"))
                .exit_status,
            0);
  EXPECT_NE(content("sizes.svg").find("neighbor_allreduce direct 4 lanes"), std::string::npos);
}

TEST_F(LanesOfRanks, MistakesAreNamed) {
  for (const char* lanes : {"0", "-1", "65", "two", "1,x", "1,,2", "1e9999"}) {
    const Ran ran = run("predict", fmt::format("--lanes={}", lanes));
    EXPECT_EQ(ran.exit_status, 2) << lanes;
    EXPECT_TRUE(mentions(ran.errors, "expected numbers of 1…64")) << lanes;
  }
  for (const char* lanes : {"0", "-1", "65", "two"}) {
    const Ran ran = run("map", fmt::format("--lanes={}", lanes));
    EXPECT_EQ(ran.exit_status, 2) << lanes;
    EXPECT_TRUE(mentions(ran.errors, "--lanes")) << lanes;
  }
}

}  // namespace
}  // namespace weft
