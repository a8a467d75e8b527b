// Machines written as hwloc's XML and read again.
#include <algorithm>

#include "tests/hardware/machines.h"

namespace weft {
namespace {

// The machine of the text, as if it came from `like`'s source; huge pages are this machine's only.
Machine read_back(const Result<std::string>& xml, const Machine& like) {
  EXPECT_TRUE(xml.ok()) << xml.status().to_string();
  const TextFile file(xml.ok() ? *xml : "");
  Result<Machine> again = read_machine(file.path());
  EXPECT_TRUE(again.ok()) << again.status().to_string();
  if (!again.ok()) return {};
  again->source = like.source;
  again->huge_pages = like.huge_pages;
  return std::move(again).value();
}

// Four packages, domains of their own, a switch below a switch, a bond, functions of one card.
constexpr const char* kDevices = R"(
[[gpu]]
index = 0
model = "H100"
pci = "0000:13:00.0"
host_bridge = "0000:10"
bridges = ["0000:10:00.0", "0000:11:00.0", "0000:12:00.0"]
bridges_gbyte_per_s = [63.0, 63.0, 31.5]
pci_gbyte_per_s = 63.0
numa_node = 0
package = 0
[[gpu]]
index = 1
pci = "0002:13:00.0"
host_bridge = "0002:10"
numa_node = 3
[[gpu_link]]
gpu = 0
peer = 1
lanes = 4
gbyte_per_s = 100
kind = "xgmi"
[[gpu_link]]
gpu = 1
lanes = 18
[[nic]]
name = "mlx5_0"
rdma = "mlx5_0"
pci = "0000:14:00.0"
host_bridge = "0000:10"
bridges = ["0000:10:00.0", "0000:11:00.0", "0000:12:04.0"]
numa_node = 0
mbit_per_s = 400_000
bond = "bond0"
[[nic]]
name = "mlx5_1"
rdma = "mlx5_1"
pci = "0000:14:00.1"
host_bridge = "0000:10"
bridges = ["0000:10:00.0", "0000:11:00.0", "0000:12:04.0"]
numa_node = 0
virtual_function = true
[[nic]]
name = "mlx5_2"
rdma = "mlx5_2"
pci = "0002:14:00.0"
host_bridge = "0002:10"
numa_node = 3
[[nic]]
name = "mlx5_2:2"
rdma = "mlx5_2"
port = 2
numa_node = 3
)";
constexpr const char* kFourPackages = "synthetic:pack:4 [numa(memory=1GB)] core:2 pu:1";

TEST(Export, ThisMachineIsTheSameFromItsFile) {
  const Result<Machine> machine = discover_machine();
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  Machine again = read_back(export_machine(), *machine);
  again.memory_bytes = machine->memory_bytes;  // a virtual machine's grows and shrinks
  for (std::size_t i = 0; i < std::min(again.nodes.size(), machine->nodes.size()); ++i)
    again.nodes[i].bytes = machine->nodes[i].bytes;
  EXPECT_EQ(again, *machine);
}

TEST(Export, ACorrectedMachineIsTheSameFromItsFile) {
  const TextFile devices(kDevices);
  Result<Machine> machine = read_machine(kFourPackages);
  ASSERT_TRUE(machine.ok());
  const Status status = correct_machine(*machine, devices.path());
  ASSERT_TRUE(status.ok()) << status.to_string();
  const Result<std::string> xml = export_machine(kFourPackages, devices.path());
  EXPECT_EQ(read_back(xml, *machine), *machine);
  // And what was written once is written again without what it had before.
  const TextFile file(xml.ok() ? *xml : "");
  EXPECT_EQ(read_back(export_machine(file.path()), *machine), *machine);
}

TEST(Export, TellsFourPackagesSeveralDomainsAndPortsApart) {
  const TextFile devices(kDevices);
  const Result<std::string> xml = export_machine(kFourPackages, devices.path());
  ASSERT_TRUE(xml.ok()) << xml.status().to_string();
  const TextFile file(*xml);
  const Result<Machine> machine = read_machine(file.path());
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_EQ(machine->packages, 4);
  EXPECT_EQ(machine->nodes[3].package, 3);
  const auto nearness = [&machine](std::size_t gpu, std::string_view to) {
    return distance(machine->gpus[gpu].place, nic(*machine, to).place).nearness;
  };
  EXPECT_EQ(nearness(0, "mlx5_0"), Nearness::one_switch);
  EXPECT_EQ(nearness(1, "mlx5_0"), Nearness::machine);  // equal buses of two domains
  EXPECT_EQ(nearness(1, "mlx5_2"), Nearness::host_bridge);
  EXPECT_EQ(nearness(1, "mlx5_2:2"), Nearness::numa_node);
  EXPECT_EQ(distance(nic(*machine, "mlx5_0").place, nic(*machine, "mlx5_1").place).nearness,
            Nearness::same_device);
  EXPECT_TRUE(nic(*machine, "mlx5_1").is_virtual_function);
  EXPECT_EQ(nic(*machine, "mlx5_0").bond, "bond0");
}

TEST(Export, KeepsWhatWasLeftOut) {
  const std::string from = WEFT_CORPUS "/hwloc/v2-by-v3.xml";
  const Result<Machine> machine = read_machine(from);
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_FALSE(machine->left_out.empty());
  EXPECT_EQ(read_back(export_machine(from), *machine), *machine);
}

TEST(Export, WhatItCannotWriteItSays) {
  const TextFile nccl("<system><cpu numaid=\"0\"/></system>");
  const Status status = export_machine(nccl.path()).status();
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_TRUE(status.text().starts_with(nccl.path() + ": a topology file of NCCL tells neither"));
  EXPECT_FALSE(export_machine("/nowhere.xml").ok());
  EXPECT_FALSE(export_machine({}, "/nowhere.toml").ok());
}

TEST(OneNode, HasTheDevicesWhosePlaceIsNotTold) {
  const TextFile devices("[[nic]]\nname = \"eth0\"\n[[gpu]]\nindex = 0\n");
  Result<Machine> one = read_machine("synthetic:pack:1 core:2 pu:1");
  Result<Machine> two = read_machine("synthetic:pack:2 [numa(memory=1GB)] core:2 pu:1");
  ASSERT_TRUE(one.ok() && two.ok());
  ASSERT_TRUE(correct_machine(*one, devices.path()).ok());
  ASSERT_TRUE(correct_machine(*two, devices.path()).ok());
  EXPECT_EQ(distance(one->gpus[0].place, one->nics[0].place).nearness, Nearness::numa_node);
  EXPECT_TRUE(one->nics[0].place.is_node_assumed);
  EXPECT_EQ(one->nics[0].place.package, 0);
  EXPECT_EQ(distance(two->gpus[0].place, two->nics[0].place).nearness, Nearness::machine);
  EXPECT_FALSE(two->nics[0].place.is_node_assumed);
  const TextFile told("[[nic]]\nname = \"eth0\"\nnuma_node = 0\n");
  ASSERT_TRUE(correct_machine(*one, told.path()).ok());
  EXPECT_FALSE(one->nics[0].place.is_node_assumed);
}

}  // namespace
}  // namespace weft
