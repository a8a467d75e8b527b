// Machines from hwloc's XML and synthetic strings.
#include <algorithm>

#include "tests/hardware/machines.h"
#include "topology/hardware/files.h"

namespace weft {
namespace {

TEST(MachineFile, EightGpusAndTheirNetworkInterfaces) {
  const Result<Machine> machine = read_machine(eight_gpus());
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_EQ(machine->packages, 2);
  EXPECT_EQ(machine->cores, 32);
  EXPECT_EQ(machine->gpus.size(), 8U);  // not the console's graphics
  EXPECT_EQ(machine->nics.size(), 9U);
  EXPECT_EQ(machine->cpu, "Intel(R) Xeon(R) Platinum 8480C");
  EXPECT_EQ(machine->gpus[0].model, "GH100 [H100 SXM5 80GB]");
  EXPECT_EQ(machine->gpus[5].place.numa_node, 1);
  EXPECT_EQ(machine->nodes[1].package, 1);
  const Nic& joined = nic(*machine, "mlx5_3");
  EXPECT_EQ(joined.netdev, "ib3");  // one interface, not two
  EXPECT_EQ(joined.place.address, "0000:46:00.0");
  EXPECT_EQ(joined.place.bridges.size(), 3U);
}

TEST(MachineFile, SaysWhatItDoesNotTell) {
  const Result<Machine> machine = read_machine(eight_gpus());
  ASSERT_TRUE(machine.ok());
  const std::vector<std::string> unknown = unknown_in(*machine);
  ASSERT_EQ(unknown.size(), 2U);
  EXPECT_TRUE(unknown[0].starts_with("the rate of eno1, mlx5_0"));
  EXPECT_EQ(unknown[1], "whether NVLink or xGMI connects the GPUs");
}

TEST(MachineFile, WithoutSysNobodyKnowsTheInterfaces) {
  Machine machine;
  EXPECT_TRUE(unknown_in(machine).empty());
  machine.unreadable = hardware::unreadable_in("/nowhere");
  ASSERT_FALSE(unknown_in(machine).empty());
  EXPECT_EQ(unknown_in(machine)[0],
            "which network interfaces there are, because /nowhere is not mounted");
}

TEST(MachineFile, SyntheticMachinesHaveNoDevices) {
  const Result<Machine> machine = read_machine("synthetic:pack:2 numa:2 core:4 pu:2");
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_EQ(machine->packages, 2);
  EXPECT_EQ(machine->nodes.size(), 4U);
  EXPECT_EQ(machine->threads, 32);
  EXPECT_TRUE(machine->nics.empty());
}

TEST(MachineFile, BadOnesAreNamed) {
  const Status missing = read_machine("/nowhere/machine.xml").status();
  EXPECT_NE(missing.text().find("/nowhere/machine.xml"), std::string::npos);
  const TextFile neither("hello\n");
  const Status other = read_machine(neither.path()).status();
  EXPECT_EQ(other.code(), Code::invalid_argument);
  EXPECT_NE(other.text().find(neither.path()), std::string::npos);
  EXPECT_NE(other.text().find("hwloc"), std::string::npos);
  const TextFile cut("<?xml version=\"1.0\"?>\n<topology version=\"2.0\"><object type=\"Mach");
  EXPECT_EQ(read_machine(cut.path()).status().code(), Code::invalid_argument);
  EXPECT_EQ(read_machine("synthetic:nonsense").status().code(), Code::invalid_argument);
  EXPECT_EQ(read_machine("/tmp").status().code(), Code::invalid_argument);
}

TEST(MachineFile, EveryCutIsAnErrorOrAMachine) {
  std::ifstream file(eight_gpus());
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  for (std::size_t end = 0; end < whole.size(); end += whole.size() / 61) {
    const TextFile cut(whole.substr(0, end));
    const Result<Machine> machine = read_machine(cut.path());
    if (!machine.ok()) {
      EXPECT_NE(machine.status().text().find(cut.path()), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace weft
