// weft topo: machines as people and programs see them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>
#include <sstream>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

constexpr const char* kEight = "topo --from " WEFT_MACHINES "/8gpu-8nic.xml";

nlohmann::json json_of(const Ran& ran) {
  std::string text;
  for (const std::string& line : ran.out) text += line + "\n";
  return nlohmann::json::parse(text, nullptr, false);
}

// The picture, which has to be XML.
std::string picture_of(const std::string& arguments) {
  const auto path =
      std::filesystem::path(testing::TempDir()) / fmt::format("weft-topo-{}.svg", getpid());
  EXPECT_EQ(run_weft(arguments + " --svg " + path.string()).exit_status, 0);
  pugi::xml_document document;
  EXPECT_TRUE(document.load_file(path.c_str()));
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  return std::move(text).str();
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(Topo, EachGpuHasItsNearNetworkInterfaces) {
  const Ran ran = run_weft(kEight);
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "node 1: 16 cores, 1024 GiB"));
  EXPECT_TRUE(mentions(ran.out, "host bridge 0000:10"));
  EXPECT_TRUE(mentions(ran.out, "mlx5_0 (ib0): rate unknown [0000:14:00.0, 63.0 GB/s]"));
  EXPECT_TRUE(mentions(ran.out, "mlx5_0     PIX     PIX    NODE    NODE     SYS     SYS     SYS"));
  EXPECT_TRUE(mentions(ran.out, "unknown: the rate of eno1, mlx5_0"));
}

TEST(Topo, AFileOfNccl) {
  const Ran ran = run_weft("topo --from " WEFT_MACHINES "/nccl-4gpu-4nic.xml");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "mlx5_2: 400 Gbit/s"));
  EXPECT_TRUE(mentions(ran.out, "mlx5_0     PIX     PHB     SYS     SYS"));
  EXPECT_TRUE(mentions(ran.out, "GPU 3 to the NVSwitch: 18 NVLink lanes, 450.0 GB/s"));
  const Ran map = run_weft("map --cluster " WEFT_CLUSTERS "/nvlink.toml --graph exponential");
  EXPECT_EQ(map.exit_status, 0);
  EXPECT_TRUE(mentions(map.out, "mlx5_3 and GPU 3 are below one PCI switch"));
}

TEST(Topo, WhatAReaderLeavesOutIsSaid) {
  const std::string from = "topo --from " WEFT_CORPUS "/nccl/self-link.xml";
  EXPECT_TRUE(mentions(run_weft(from).out,
                       "left out: GPU 0 to 0001:00:00.0 (a link from a GPU to itself)"));
  EXPECT_EQ(json_of(run_weft(from + " --json"))["left_out"].size(), 1U);
  EXPECT_NE(picture_of(from).find("left out: GPU 0 to 0001:00:00.0"), std::string::npos);
  const Ran amd = run_weft("topo --from " WEFT_CORPUS "/nccl/xgmi.xml");
  EXPECT_TRUE(mentions(amd.out, "GPU 0 to GPU 1: 2 xGMI lanes, 92.0 GB/s"));
  EXPECT_TRUE(mentions(amd.out, "node 0: cores unknown, memory unknown"));
}

TEST(Topo, JsonHasTheSame) {
  const Ran ran = run_weft(std::string(kEight) + " --json");
  EXPECT_EQ(ran.exit_status, 0);
  const nlohmann::json machine = json_of(ran);
  ASSERT_TRUE(machine.is_object());
  EXPECT_EQ(machine["gpus"].size(), 8U);
  EXPECT_EQ(machine["nics"].size(), 9U);
  EXPECT_EQ(machine["nics"][1]["name"], "mlx5_0");
  EXPECT_TRUE(machine["nics"][1]["mbit_per_s"].is_null());
  EXPECT_EQ(machine["nics"][1]["gpus"][0]["distance"], "PIX");
  EXPECT_EQ(machine["nics"][1]["gpus"][7]["distance"], "SYS");
}

TEST(Topo, NodesNameTheirProcessorsAndCaches) {
  const std::string machine =
      "topo --from 'synthetic:pack:2 [numa(memory=1GB)] l3:1(size=33554432) core:2 "
      "l2:1(size=1048576) "
      "pu:2'";
  const Ran text = run_weft(machine);
  EXPECT_EQ(text.exit_status, 0);
  EXPECT_TRUE(mentions(text.out, "caches: 4 x L2 1 MiB, 2 x L3 32 MiB (2 cores each)"));
  EXPECT_TRUE(mentions(text.out, "node 1: 2 cores, 0 GiB, package 1, processors 4-7"));
  const nlohmann::json object = json_of(run_weft(machine + " --json"));
  ASSERT_EQ(object["caches"].size(), 2U);
  EXPECT_EQ(object["caches"][1],
            nlohmann::json({{"level", 3}, {"bytes", 33554432}, {"count", 2}, {"cores_each", 2}}));
  EXPECT_EQ(object["nodes"][1]["processors"], nlohmann::json({4, 5, 6, 7}));
  const nlohmann::json eight = json_of(run_weft(std::string(kEight) + " --json"));
  EXPECT_EQ(eight["nics"][1]["nodes"], nlohmann::json({{{"node", 0}, {"distance", "NODE"}},
                                                       {{"node", 1}, {"distance", "SYS"}}}));
}

// From a library of ours, found as NVIDIA's is.
TEST(Topo, ThisMachinesGpusAreTheManagementLibrarys) {
  const std::string with = "LD_LIBRARY_PATH=" WEFT_NVML ":$LD_LIBRARY_PATH {weft} ";
  const Ran ran = run_line(with + "topo");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "GPU 0: NVIDIA A100-SXM4-40GB, 40 GiB [0000:3b:00.0"));
  EXPECT_TRUE(mentions(ran.out, "GPU 1: NVIDIA A100-SXM4-40GB, 40 GiB [0000:5e:00.0"));
  EXPECT_TRUE(mentions(ran.out, "GPU 0 to GPU 1: 4 NVLink lanes, 100.0 GB/s"));
  EXPECT_TRUE(mentions(ran.out, "GPU 1 to GPU 0: 4 NVLink lanes, 100.0 GB/s"));
  EXPECT_FALSE(mentions(ran.out, "whether NVLink"));
}

// What a file puts on a node that it does not have.
TEST(Topo, NoDeviceIsLost) {
  const Folder folder;
  folder.write("fix.toml", "[[nic]]\nname = \"eth0\"\nnuma_node = 1\n");
  const Ran wrote = run_line(
      "cd " + folder.path("") +
      " && {weft} topo --from 'synthetic:pack:2 [numa(memory=1GB)] core:2 pu:1' --correct fix.toml "
      "--xml | sed 's/\\(numa_node. value=.\\)1/\\19/' > machine.xml");
  EXPECT_EQ(wrote.exit_status, 0);
  const std::string machine = "topo --from " + folder.path("machine.xml");
  const Ran ran = run_weft(machine);
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "on no node that is known"));
  EXPECT_TRUE(mentions(ran.out, "  eth0: rate unknown"));
  EXPECT_EQ(count(picture_of(machine), "class=\"nic\""), 1U);
}

TEST(Topo, ThisMachineWhateverItIs) {
  const Ran ran = run_weft("topo");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "this machine: "));
  EXPECT_TRUE(mentions(ran.out, "node 0: "));
  const Ran xml = run_weft("topo --xml");
  EXPECT_EQ(xml.exit_status, 0);
  EXPECT_TRUE(mentions(xml.out, "<topology"));
}

TEST(Topo, LanesOfUsualNumbersOfRanks) {
  EXPECT_TRUE(mentions(run_weft("topo --from 'synthetic:pack:2 core:16 pu:1'").out,
                       "lanes: 4 of a rank alone, 4 of each of 2 ranks, 4 of each of 4 ranks, 2 of "
                       "each of 8 ranks"));
}

TEST(Topo, PictureHasEveryDeviceAndItsSwitch) {
  const std::string svg = picture_of(kEight);
  EXPECT_EQ(count(svg, "class=\"core\""), 32U);
  EXPECT_EQ(count(svg, "class=\"gpu\""), 8U);
  EXPECT_EQ(count(svg, "class=\"nic\""), 9U);
  EXPECT_EQ(count(svg, "class=\"switch\""), 4U);
  EXPECT_EQ(count(svg, "class=\"host\""), 5U);
  EXPECT_EQ(count(svg, ">PIX<"), 16U + 1U);  // two for each interface but eno1; the legend
  EXPECT_EQ(count(svg, ">63 GB/s<"), 4U + 16U);
  EXPECT_NE(svg.find("mlx5_3 to GPU 2: below one PCI switch, 63.0 GB/s"), std::string::npos);
}

TEST(Topo, PictureOfAnyMachine) {
  EXPECT_EQ(count(picture_of("topo --from 'synthetic:pack:4 core:3 pu:2'"), "class=\"core\""), 12U);
  EXPECT_NE(picture_of("topo").find("this machine"), std::string::npos);
  const std::string links = picture_of("topo --from " WEFT_CORPUS "/nccl/two-gpus.xml");
  EXPECT_NE(links.find("GPU 0 to GPU 1: 12 lanes, 300.0 GB/s"), std::string::npos);
  EXPECT_EQ(count(links, ">NVSwitch<"), 1U);
}

TEST(Topo, WhatItTakesForGrantedItSays) {
  const Ran ran =
      run_weft("topo --from 'synthetic:core:2 pu:1' --correct " WEFT_CORPUS "/correct/small.toml");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(
      mentions(ran.out, "taken to be: GPU 0, GPU 1, eth0 on node 0, the only one there is"));
}

TEST(Topo, XmlOfACorrectedMachineNeedsNoCorrectionAnyMore) {
  const auto path =
      std::filesystem::path(testing::TempDir()) / fmt::format("weft-topo-{}.xml", getpid());
  const std::string corrected =
      "topo --from 'synthetic:core:2 pu:1' --correct " WEFT_CORPUS "/correct/small.toml";
  EXPECT_EQ(run_weft(corrected + " --xml > " + path.string()).exit_status, 0);
  const Ran ran = run_weft("topo --from " + path.string());
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "eth0: 25 Gbit/s"));
  EXPECT_TRUE(mentions(ran.out, "GPU 0 to GPU 1: 4 NVLink lanes"));
  std::filesystem::remove(path);
}

// Ranks on this machine see it so.
TEST(Topo, SettingsOfRanksApplyToThisMachine) {
  const Folder folder;
  folder.write("fix.toml", "[[nic]]\nname = \"weft9\"\nnuma_node = 0\n");
  const std::string with = "WEFT_HARDWARE=" + folder.path("fix.toml") + " {weft} topo";
  const Ran corrected = run_line(with);
  EXPECT_EQ(corrected.exit_status, 0);
  EXPECT_TRUE(mentions(corrected.out, "corrected by " + folder.path("fix.toml")));
  EXPECT_TRUE(mentions(corrected.out, "added: weft9 (by " + folder.path("fix.toml")));
  EXPECT_FALSE(mentions(run_line(with + " --from synthetic:core:2").out, "weft9"))
      << "another machine";
  EXPECT_TRUE(
      mentions(run_line("WEFT_HARDWARE=/nowhere.toml {weft} topo").errors, "/nowhere.toml"));
  EXPECT_TRUE(mentions(run_line("WEFT_INTERFACES=weft9 {weft} topo").out,
                       "used by ranks: weft9 (not here), by WEFT_INTERFACES"));
}

// hwloc has a banner for it.
TEST(Topo, OfAFileThatContradictsItselfOneLineIsSaid) {
  const Folder folder;
  const std::string sets =
      R"( cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1")";
  const std::string other =
      R"( cpuset="0x1" complete_cpuset="0x1" nodeset="0x2" complete_nodeset="0x2")";
  folder.write("machine.xml", "<topology version=\"2.0\"><object type=\"Machine\"" + sets +
                                  "><object type=\"NUMANode\" os_index=\"0\"" + other +
                                  "/><object type=\"PU\" os_index=\"0\"" + sets +
                                  "/></object></topology>");
  const Ran ran = run_weft("topo --from " + folder.path("machine.xml"));
  EXPECT_EQ(ran.exit_status, 2);
  ASSERT_EQ(ran.errors.size(), 1U);
  EXPECT_TRUE(mentions(ran.errors, "machine.xml: hwloc cannot read it as a machine"));
}

TEST(Topo, MistakesAreNamed) {
  for (const std::string option : {"--from", "--correct", "--svg"}) {
    const Ran empty = run_weft("topo " + option + " ''");
    EXPECT_EQ(empty.exit_status, 2) << "this machine is not asked for";
    EXPECT_TRUE(mentions(empty.errors, option + ": is empty"));
  }
  const Ran missing = run_weft("topo --from /nowhere.xml");
  EXPECT_EQ(missing.exit_status, 1);
  EXPECT_TRUE(mentions(missing.errors, "/nowhere.xml"));
  const Ran wrong = run_weft("topo --from synthetic:nonsense");
  EXPECT_EQ(wrong.exit_status, 2);
  EXPECT_TRUE(mentions(wrong.errors, "synthetic:nonsense"));
  EXPECT_EQ(run_weft("topo --xml --json").exit_status, 2);
  EXPECT_EQ(run_weft("topo --xml --svg a.svg").exit_status, 2);
  const Ran unwritable = run_weft("topo --svg /nowhere/a.svg");
  EXPECT_EQ(unwritable.exit_status, 1);
  EXPECT_TRUE(mentions(unwritable.errors, "/nowhere/a.svg"));
  EXPECT_TRUE(mentions(run_weft("topo --correct /nowhere.toml").errors, "/nowhere.toml"));
}

}  // namespace
}  // namespace weft
