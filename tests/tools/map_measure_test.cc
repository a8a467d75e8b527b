// weft map --measure: a job that maps its graph, and times its edges.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"
#include "tools/weft/map/lap_plan.h"

namespace weft {
namespace {

class MapMeasure : public testing::Test {
 protected:
  MapMeasure() {
    folder_.write("here.toml",
                  "[[machine]]\nname = \"here\"\nlike = \"synthetic:core:4 pu:1\"\nranks = 3\n");
  }
  [[nodiscard]] std::string cluster() const { return file("here.toml"); }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_.path(name); }

 private:
  Folder folder_;
};

TEST_F(MapMeasure, EveryEdgeHasItsTime) {
  const std::string command = "run -n 3 --no-tag -- {weft} map --graph ring --measure --cluster ";
  const Ran ran = run_weft(command + cluster() + " --json -");
  EXPECT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors.front());
  std::string text;
  for (const std::string& line : ran.out) text += line + "\n";
  const nlohmann::json map = nlohmann::json::parse(text, nullptr, false);
  ASSERT_TRUE(map.is_object()) << text;
  ASSERT_EQ(map["edges"].size(), 6U);
  for (const nlohmann::json& edge : map["edges"]) {
    EXPECT_GT(edge.value("measured_us", 0.0), 0) << edge;
    EXPECT_GT(edge.value("alone_us", 0.0), 0) << edge;
  }
  EXPECT_TRUE(mentions(run_weft(command + cluster()).out, "measured  error %"));
}

// How long an edge is measured whose messages take so long.
std::int64_t measured_for(std::int64_t message_ns, std::int64_t enough_ns, int& counted) {
  const LapPlan plan{enough_ns};
  std::int64_t spent = 0;
  counted = 0;
  for (int warmed = 0;; spent += message_ns) {
    const LapPlan::Lap lap = plan.next(warmed, counted, spent);
    if (lap == LapPlan::Lap::none) return spent;
    ++(lap == LapPlan::Lap::counts ? counted : warmed);
  }
}

TEST(LapPlan, SlowMessagesAreSentFewerTimes) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  int counted = 0;
  EXPECT_EQ(measured_for(1000, 10 * kSecond, counted), 18 * 1000);
  EXPECT_EQ(counted, LapPlan::kCounted);
  EXPECT_LE(measured_for(2 * kSecond, 10 * kSecond, counted), 12 * kSecond);
  EXPECT_EQ(measured_for(14 * kSecond, 10 * kSecond, counted), 4 * 14 * kSecond);
  EXPECT_EQ(counted, LapPlan::kLeastCounted);
}

// Machines 0, 2 and 4 are below one leaf, where all three ranks of a line would like to sit; but
// the job has machines 0, 1 and 2: ranks that call themselves different ones, connected by the
// loopback.
TEST_F(MapMeasure, FoundSeatsAreThoseOfTheJob) {
  if (!WEFT_HAS_UCX) GTEST_SKIP() << "needs UCX between machines";
  std::ofstream(cluster()) << R"(
[[machine]]
name = "node"
count = 6
like = "synthetic:core:4 pu:1"
correct = "nic.toml"
ranks = 1
[[rail]]
nics = ["mlx5_0"]
[[rail.level]]
machines = 3
stride = 2
oversubscription = 3
)";
  std::ofstream(file("nic.toml")) << "[[nic]]\nname = \"mlx5_0\"\nmbit_per_s = 100_000\n";
  const Ran ran = run_weft(
      "run -n 3 --no-tag -- sh -c 'WEFT_HOST=node$WEFT_RANK WEFT_INTERFACES=lo exec {weft} map "
      "--graph tree:k=1 --ranks 3 --measure --place --swaps 1000 --cluster " +
      cluster() + " --json -'");
  EXPECT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors.front());
  std::string text;
  for (const std::string& line : ran.out) text += line + "\n";
  const nlohmann::json map = nlohmann::json::parse(text, nullptr, false);
  ASSERT_TRUE(map.is_object()) << text;
  EXPECT_FALSE(map["placement"]["is_identity"]);
  for (const nlohmann::json& rank : map["ranks"]) EXPECT_LT(rank["seat"], 3);
  for (const nlohmann::json& edge : map["edges"])
    EXPECT_GT(edge.value("measured_us", 0.0), 0) << edge;
}

// A file of two machines, a job on one: shared memory would be shown as what a rail takes.
TEST_F(MapMeasure, RanksOnOtherMachinesAreAnError) {
  std::ofstream(file("nic.toml")) << "[[nic]]\nname = \"mlx5_0\"\nmbit_per_s = 100_000\n";
  std::ofstream(file("two.toml")) << "[[machine]]\nname = \"node\"\ncount = 2\n"
                                     "like = \"synthetic:core:4 pu:1\"\ncorrect = \"nic.toml\"\n"
                                     "ranks = 1\n[[rail]]\nnics = [\"mlx5_0\"]\n";
  const Ran together =
      run_weft("run -n 2 -- {weft} map --graph ring --measure --cluster " + file("two.toml"));
  EXPECT_EQ(together.exit_status, 2);
  EXPECT_TRUE(mentions(together.errors, "rank 1 is on the machine of rank 0, but "));
  EXPECT_TRUE(mentions(together.errors, "two.toml has it on node1"));
  const Ran apart = run_weft(
      "run -n 3 -- sh -c 'WEFT_HOST=h$((WEFT_RANK / 2)) exec {weft} map --graph ring --measure "
      "--cluster " +
      cluster() + "'");
  EXPECT_EQ(apart.exit_status, 2);
  EXPECT_TRUE(mentions(apart.errors, "rank 2 is on a machine without lower ranks, but "));
  EXPECT_TRUE(mentions(apart.errors, "here.toml has it on here"));
}

TEST_F(MapMeasure, AnotherNumberOfRanksIsAnError) {
  const std::string map = "map --graph ring --measure --cluster " + cluster();
  const Ran alone = run_weft(map);
  EXPECT_EQ(alone.exit_status, 2);
  EXPECT_TRUE(mentions(alone.errors, "the graph has 3 ranks, the job 1"));
  EXPECT_EQ(run_weft("run -n 2 -- {weft} " + map).exit_status, 2);
}

}  // namespace
}  // namespace weft
