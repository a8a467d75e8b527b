// weft map: graphs on clusters, as tables, JSON and drawings.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/base/sanitized.h"
#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

constexpr const char* kTwoLeaves = "map --cluster " WEFT_CLUSTERS "/two-leaves.toml";

class Map : public testing::Test {
 protected:
  [[nodiscard]] Ran tree(const std::string& arguments) const {
    return run_weft("map --cluster " + folder_.tree() + " " + arguments);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path(name); }
  [[nodiscard]] std::string content(const std::string& name) const { return folder_.content(name); }

 private:
  TreeFolder folder_;
};

TEST_F(Map, TablesHaveRanksEdgesAndLinks) {
  const Ran ran = run_weft(std::string(kTwoLeaves) + " --graph exponential");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "mlx5_3 and GPU 3 are below one PCI switch"));
  EXPECT_TRUE(mentions(ran.out, "node8 mlx5_0"));
  EXPECT_TRUE(mentions(ran.out, "both ranks use rail 0"));
  EXPECT_TRUE(mentions(ran.out, "one machine: memory"));
  EXPECT_TRUE(mentions(ran.out, "no rail that both ranks use: both machines have rails 0, 1"));
  EXPECT_TRUE(mentions(ran.out, "seat 4 reads"));
  EXPECT_TRUE(mentions(ran.out, "us  of busiest"));
  EXPECT_TRUE(mentions(ran.out, "… and 104 more (--all)"));
  EXPECT_TRUE(mentions(ran.out, "254.0 messages between leaves"));
  const Ran all = run_weft(std::string(kTwoLeaves) + " --all");
  EXPECT_FALSE(mentions(all.out, "more (--all)"));
  EXPECT_TRUE(mentions(all.out, "rail 7: leaf 1 down"));
}

TEST_F(Map, TellsHowMemoryOfGpusTravels) {
  const Ran ran = run_weft(std::string(kTwoLeaves) + " --graph ring");
  EXPECT_TRUE(mentions(ran.out, "its memory goes by"));
  EXPECT_TRUE(
      mentions(ran.out, "1 -> 0      1        0        CUDA IPC over PCI, below one PCI switch"));
  EXPECT_TRUE(mentions(ran.out, "GPUDirect RDMA: mlx5_0 and GPU 7 are"));
  const Ran linked = run_weft("map --cluster " WEFT_CLUSTERS "/nvlink.toml --graph ring");
  EXPECT_TRUE(mentions(linked.out, "CUDA IPC over NVLink through a switch, 450 GB/s"));
  const Ran tcp = run_weft("map --cluster " WEFT_CLUSTERS "/ethernet.toml --graph ring");
  EXPECT_TRUE(mentions(tcp.out, "blocks of the host: eno1 sends host memory alone"));
  EXPECT_FALSE(mentions(tree("--graph ring").out, "its memory goes by"));
  const nlohmann::json map = nlohmann::json::parse(
      [&] {
        (void)run_weft(std::string(kTwoLeaves) + " --graph ring --json " + path("gpus.json"));
        return content("gpus.json");
      }(),
      nullptr, false);
  ASSERT_TRUE(map.is_object());
  EXPECT_EQ(map["edges"][0]["gpu"]["from"], 1);
  EXPECT_EQ(map["edges"][0]["gpu"]["way"].get<std::string>().find("CUDA IPC"), 0U);
}

TEST_F(Map, JsonHasTheSame) {
  const Ran ran = tree("--graph ring --bytes 1000000 --json " + path("map.json"));
  EXPECT_EQ(ran.exit_status, 0);
  const nlohmann::json map = nlohmann::json::parse(content("map.json"), nullptr, false);
  ASSERT_TRUE(map.is_object());
  EXPECT_EQ(map["ranks"].size(), 16U);
  EXPECT_EQ(map["edges"].size(), 32U);
  EXPECT_EQ(map["edges"][0]["ways"][0]["local"], "mlx5_0");
  EXPECT_DOUBLE_EQ(map["us"], 640);  // 8 messages leave a leaf of 400 / 4 Gbit/s
  EXPECT_EQ(map["loads"][0]["kind"], "up");
  EXPECT_TRUE(map["placement"].is_null());
  EXPECT_EQ(tree("--json -").out.front(), "{");
  EXPECT_EQ(tree("--json").out, tree("--json -").out);
}

// Of four interfaces, the one near GPU 0 has half of a tree's edges between two machines.
TEST_F(Map, AFasterPolicyIsTold) {
  std::ofstream file(path("two.toml"));
  file << "[[machine]]\ncount = 2\nlike = \"" WEFT_MACHINES "/nccl-4gpu-4nic.xml\"\n";
  for (int rail = 0; rail < 4; ++rail) file << "[[rail]]\nnics = [\"mlx5_" << rail << "\"]\n";
  file << "[memory]\ngbyte_per_s = 10_000\ncombine_gbyte_per_s = 10_000\n";
  file.close();
  const std::string map = "map --cluster " + path("two.toml") + " --graph tree:k=4 --bytes 50M";
  const Ran near = run_weft(map);
  EXPECT_TRUE(mentions(near.out, "one exchange takes 1572.86 us"));
  EXPECT_TRUE(mentions(near.out, "--rails all: 1048.58 us"));
  const Ran all = run_weft(map + " --rails all");
  EXPECT_TRUE(mentions(all.out, "one exchange takes 1048.58 us"));
  EXPECT_FALSE(mentions(all.out, "--rails"));
}

// Rank 8 is alone on its machine, so both of its interfaces are its own; rank 7 has one of them
// too.
TEST_F(Map, FreeSeatsTakeNoShareOfAMachine) {
  const std::string asked =
      "map --cluster " WEFT_CLUSTERS
      "/four-machines.toml --graph ring:style=2 --ranks 9 --rails near --bytes 64M --json ";
  EXPECT_EQ(run_weft(asked + path("map.json")).exit_status, 0);
  const nlohmann::json map = nlohmann::json::parse(content("map.json"), nullptr, false);
  ASSERT_TRUE(map.is_object());
  EXPECT_EQ(map["ranks"][8]["reason"].get<std::string>().find("ranks share it"), std::string::npos)
      << map["ranks"][8];
  EXPECT_EQ(map["ranks"][8]["rails"].size(), 2U);
  const auto edge = std::ranges::find_if(
      map["edges"], [](const nlohmann::json& one) { return one["from"] == 7 && one["to"] == 8; });
  ASSERT_NE(edge, map["edges"].end());
  EXPECT_EQ((*edge)["ways"].size(), 1U);
  EXPECT_NEAR((*edge)["us"], 1344, 1);
}

TEST_F(Map, PlaceFindsBetterSeats) {
  const Ran ran = tree("--graph ring --place --swaps 1000 --json " + path("map.json"));
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "1000 swaps tried"));
  const nlohmann::json map = nlohmann::json::parse(content("map.json"), nullptr, false);
  ASSERT_TRUE(map.is_object());
  EXPECT_DOUBLE_EQ(map["placement"]["identity"]["between_switches"][0], 32);
  EXPECT_DOUBLE_EQ(map["placement"]["found"]["between_switches"][0], 8);
  EXPECT_DOUBLE_EQ(map["between_switches"][0], 8);
}

TEST_F(Map, MachinesOfAKindNeedNoFile) {
  const std::string like = "map --like " WEFT_MACHINES "/nccl-4gpu-4nic.xml";
  const Ran ran = run_weft(like + " --machines 2 --per-machine 4 --graph ring");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "2 machines, 8 ranks"));
  EXPECT_TRUE(mentions(run_weft(like).errors, "--machines 0"));
  EXPECT_TRUE(mentions(run_weft("map --like ''").errors, "--like: is empty"));
  EXPECT_TRUE(mentions(run_weft("map").errors, "say --cluster FILE, or --like MACHINE"));
  EXPECT_EQ(tree("--like this --machines 2").exit_status, 2) << "one of both";
}

TEST_F(Map, TheDrawingHasAllMachinesAndTheBusyLinks) {
  EXPECT_EQ(tree("--graph one_peer_exponential --svg " + path("map.svg")).exit_status, 0);
  const std::string svg = content("map.svg");
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const char* part : {">node15<", ">leaf 3<", ">top<", "rail 0: leaf 2 up: ", "rank 7: "})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
}

// 64 machines: 16 leaves, 4 switches of level 1, 2 of level 2.
TEST_F(Map, AllLevelsAreShown) {
  const std::string map = "map --cluster " WEFT_CLUSTERS "/three-levels.toml --graph ring --svg " +
                          path("map.svg") + " --json ";
  EXPECT_EQ(run_weft(map + path("map.json")).exit_status, 0);
  const nlohmann::json json = nlohmann::json::parse(content("map.json"), nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["between_switches"], (std::vector<double>{32, 8, 4}));
  const std::string svg = content("map.svg");
  for (const char* part :
       {">leaf 15<", ">level 1, switch 3<", ">level 2, switch 1<", ">top<",
        "rail 0: level 2, switch 1 up: 2.00 messages", "16 machines a switch of level 1"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  const Ran ran = run_weft("map --cluster " WEFT_CLUSTERS "/three-levels.toml --graph ring --all");
  EXPECT_TRUE(mentions(ran.out, "level 2, switch 0 down"));
  EXPECT_TRUE(
      mentions(ran.out, "8.0 between switches of level 1, 4.0 between switches of level 2"));
  // Of ranks below one switch of level 1, what is above is left out.
  EXPECT_EQ(run_weft(map + "--ranks 16").exit_status, 0);
  EXPECT_NE(content("map.svg").find(">level 1, switch 0<"), std::string::npos);
  for (const char* part : {">level 2, switch 0<", ">top<", ">leaf 4<"})
    EXPECT_EQ(content("map.svg").find(part), std::string::npos) << part;
}

TEST_F(Map, TheDrawingLeavesOutWhatCarriesNoRank) {
  EXPECT_EQ(tree("--graph ring --ranks 3 --svg " + path("map.svg")).exit_status, 0);
  const std::string svg = content("map.svg");
  for (const char* part : {">node2<", ">leaf 2<", "13 machines without ranks left out"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  for (const char* part : {">node3<", ">leaf 3<"})
    EXPECT_EQ(svg.find(part), std::string::npos) << part;
  const std::string wide = "map --cluster " WEFT_CLUSTERS "/ethernet.toml --graph ring --svg " +
                           path("map.svg") + " --ranks ";
  EXPECT_EQ(run_weft(wide + "64").exit_status, 0);
  EXPECT_TRUE(mentions(run_weft(wide + "65").errors, "at most 64 machines with ranks, not 65"));
}

TEST_F(Map, MistakesAreNamed) {
  EXPECT_EQ(run_weft("map").exit_status, 2);
  const Ran missing = run_weft("map --cluster /nowhere.toml");
  EXPECT_NE(missing.exit_status, 0);
  EXPECT_TRUE(mentions(missing.errors, "/nowhere.toml"));
  const Ran large = tree("--ranks 17");
  EXPECT_EQ(large.exit_status, 2);
  EXPECT_TRUE(mentions(large.errors, "tree.toml has room for 16"));
  EXPECT_TRUE(mentions(tree("--graph nonsense").errors, "nonsense"));
  EXPECT_TRUE(mentions(tree("--bytes 1X").errors, "1X"));
  EXPECT_EQ(tree("--rails some").exit_status, 2);
  EXPECT_EQ(tree("--seconds 3").exit_status, 2);  // of which search?
  EXPECT_TRUE(mentions(tree("--svg /nowhere/map.svg").errors, "/nowhere/map.svg"));
  const std::string full = "map --graph fully_connected --cluster " WEFT_CLUSTERS "/ethernet.toml";
  EXPECT_TRUE(mentions(run_weft(full).errors, "has 16773120 edges; at most 4000000"));
  if (!kIsSanitized) {  // which would need 20 s for half a million edges
    const Ran wide = run_weft(full + " --ranks 720 --json " + path("map.json"));
    EXPECT_TRUE(mentions(wide.errors, "--json writes at most 500000 edges, not 517680"));
  }
  const Ran unread = tree("> /dev/full");
  EXPECT_EQ(unread.exit_status, 1);
  EXPECT_TRUE(mentions(unread.errors, "standard output"));
}

}  // namespace
}  // namespace weft
