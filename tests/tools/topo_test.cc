// weft topo: machines as people and programs see them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/command.h"

namespace weft {
namespace {

constexpr const char* kEight = "topo --from " WEFT_MACHINES "/8gpu-8nic.xml";

TEST(Topo, EachGpuHasItsNearNetworkInterfaces) {
  const Ran ran = run_weft(kEight);
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "node 1: 16 cores, 1024 GiB"));
  EXPECT_TRUE(mentions(ran.out, "host bridge 0000:10"));
  EXPECT_TRUE(mentions(ran.out, "mlx5_0 (ib0): rate unknown [0000:14:00.0, 63.0 GB/s]"));
  EXPECT_TRUE(mentions(ran.out, "mlx5_0     PIX     PIX    NODE    NODE     SYS     SYS     SYS"));
  EXPECT_TRUE(mentions(ran.out, "not told: the rate of eno1, mlx5_0"));
}

TEST(Topo, JsonHasTheSame) {
  const Ran ran = run_weft(std::string(kEight) + " --json");
  EXPECT_EQ(ran.exit_status, 0);
  std::string text;
  for (const std::string& line : ran.out) text += line + "\n";
  const nlohmann::json machine = nlohmann::json::parse(text, nullptr, false);
  ASSERT_TRUE(machine.is_object());
  EXPECT_EQ(machine["gpus"].size(), 8U);
  EXPECT_EQ(machine["nics"].size(), 9U);
  EXPECT_EQ(machine["nics"][1]["name"], "mlx5_0");
  EXPECT_TRUE(machine["nics"][1]["mbit_per_s"].is_null());
  EXPECT_EQ(machine["nics"][1]["gpus"][0]["distance"], "PIX");
  EXPECT_EQ(machine["nics"][1]["gpus"][7]["distance"], "SYS");
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

TEST(Topo, MistakesAreNamed) {
  const Ran missing = run_weft("topo --from /nowhere.xml");
  EXPECT_EQ(missing.exit_status, 1);
  EXPECT_TRUE(mentions(missing.errors, "/nowhere.xml"));
  const Ran wrong = run_weft("topo --from synthetic:nonsense");
  EXPECT_EQ(wrong.exit_status, 2);
  EXPECT_TRUE(mentions(wrong.errors, "synthetic:nonsense"));
  EXPECT_EQ(run_weft("topo --xml --json").exit_status, 2);
  EXPECT_TRUE(mentions(run_weft("topo --correct /nowhere.toml").errors, "/nowhere.toml"));
}

}  // namespace
}  // namespace weft
