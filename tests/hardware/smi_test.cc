// What nvidia-smi prints, and topology files for NCCL.
#include <fmt/format.h>

#include <iterator>
#include <pugixml.hpp>

#include "tests/hardware/machines.h"

namespace weft {
namespace {

// As H100 with eight GPUs has it, cut down to four GPUs on two nodes.
constexpr const char* kTable =
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tNIC2\tCPU Affinity\tNUMA Affinity\tGPU NUMA "
    "ID\x1b[0m\n"
    "GPU0\t X \tNV18\tNV18\tNV18\tPIX\tPXB\tSYS\t0-51,104-155\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tNV18\tNV18\tPXB\tPIX\tSYS\t0-51,104-155\t0\t\tN/A\n"
    "GPU2\tNV18\tNV18\t X \tNV18\tSYS\tSYS\tNODE\t52-103\t1\t\tN/A\n"
    "GPU3\tNV18\tNV18\tNV18\t X \tSYS\tSYS\tPHB\t52-103\t1\t\tN/A\n"
    "NIC0\tPIX\tPXB\tSYS\tSYS\t X \tPXB\tSYS\n"
    "NIC1\tPXB\tPIX\tSYS\tSYS\tPXB\t X \tSYS\n"
    "NIC2\tSYS\tSYS\tNODE\tPHB\tSYS\tSYS\t X \n"
    "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n\nNIC Legend:\n\n"
    "  NIC0: mlx5_0\n  NIC1: mlx5_1\n  NIC2: mlx5_bond_0\n";

Nearness near(const Machine& machine, std::size_t gpu, const std::string& name) {
  return distance(machine.gpus[gpu].place, nic(machine, name).place).nearness;
}

TEST(SmiTable, DevicesAreAsNearAsItSays) {
  const TextFile file(kTable);
  const Result<Machine> machine = read_machine(file.path());
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  ASSERT_EQ(machine->gpus.size(), 4U);
  EXPECT_EQ(near(*machine, 0, "mlx5_0"), Nearness::one_switch);
  EXPECT_EQ(near(*machine, 0, "mlx5_1"), Nearness::switches);
  EXPECT_EQ(near(*machine, 1, "mlx5_1"), Nearness::one_switch);
  EXPECT_EQ(near(*machine, 0, "mlx5_bond_0"), Nearness::machine);
  EXPECT_EQ(near(*machine, 2, "mlx5_bond_0"), Nearness::numa_node);
  EXPECT_EQ(near(*machine, 3, "mlx5_bond_0"), Nearness::host_bridge);
  EXPECT_EQ(machine->gpus[3].place.numa_node, 1);
  EXPECT_EQ(nic(*machine, "mlx5_bond_0").place.numa_node, 1);
  ASSERT_EQ(machine->nodes.size(), 2U);
  EXPECT_EQ(machine->nodes[0].processors.size(), 104U);
  // 18 links for each of three peers would be 54: the GPUs are joined by switches.
  ASSERT_EQ(machine->gpu_links.size(), 4U);
  EXPECT_EQ(machine->gpu_links[2], (GpuLink{2, GpuLink::kSwitch, 18, 0}));
}

TEST(SmiTable, PairsWithLinksOfTheirOwn) {
  const TextFile file(
      "        GPU0    GPU1    GPU2    CPU Affinity    NUMA Affinity\n"
      "GPU0     X      NV2     NV1     0-15            0\n"
      "GPU1    NV2      X      PHB     0-15            0\n"
      "GPU2    NV1     PHB      X      0-15            0\n");
  const Result<Machine> machine = read_machine(file.path());
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_EQ(machine->gpu_links.size(), 4U);
  EXPECT_EQ(machine->gpu_links[0], (GpuLink{0, 1, 2, 0}));
}

TEST(SmiTable, WhatIsWrongIsNamedWithItsLine) {
  const auto error_of = [](const std::string& text) {
    const TextFile file(text);
    return read_machine(file.path()).status().to_string();
  };
  const std::string whole = kTable;
  const std::string cut = error_of(whole.substr(0, whole.find("GPU3\tNV18")));
  EXPECT_NE(cut.find("no row of GPU3: the file is cut short"), std::string::npos) << cut;
  const std::string cells = error_of("\tGPU0\tGPU1\nGPU0\t X\n");
  EXPECT_NE(cells.find(":2: GPU0 has 1 cells, the head has 2 columns"), std::string::npos) << cells;
  const std::string word = error_of("\tGPU0\tGPU1\nGPU0\t X \tFAR\nGPU1\tPHB\t X\n");
  EXPECT_NE(word.find(":2: 'FAR' is no distance"), std::string::npos) << word;
}

// NCCL's files have no host bridges.
Nearness told(Nearness nearness) {
  return nearness == Nearness::numa_node ? Nearness::host_bridge : nearness;
}

// Read, written and read again, a machine is the same.
TEST(NcclTopology, GivesTheSameMachineAgain) {
  for (const char* name : {"/nccl-4gpu-4nic.xml", "/8gpu-8nic.xml"}) {
    Result<Machine> first = read_machine(WEFT_MACHINES + std::string(name));
    ASSERT_TRUE(first.ok()) << first.status().to_string();
    const Result<std::string> text = nccl_topology(*first);
    ASSERT_TRUE(text.ok()) << text.status().to_string();
    const TextFile file(*text);
    const Result<Machine> second = read_machine(file.path());
    ASSERT_TRUE(second.ok()) << second.status().to_string() << *text;
    ASSERT_EQ(second->gpus.size(), first->gpus.size());
    ASSERT_EQ(second->nics.size(), first->nics.size());
    for (std::size_t gpu = 0; gpu < first->gpus.size(); ++gpu) {
      EXPECT_EQ(second->gpus[gpu].place.address, first->gpus[gpu].place.address);
      EXPECT_NEAR(second->gpus[gpu].place.gbyte_per_s, first->gpus[gpu].place.gbyte_per_s, 0.1);
      for (const Nic& each : first->nics) {
        const Nic& again = nic(*second, each.name());
        EXPECT_EQ(again.mbit_per_s, each.mbit_per_s);
        EXPECT_EQ(told(distance(second->gpus[gpu].place, again.place).nearness),
                  told(distance(first->gpus[gpu].place, each.place).nearness))
            << gpu << ' ' << each.name();
      }
    }
    for (std::size_t link = 0; link < first->gpu_links.size(); ++link) {
      EXPECT_EQ(second->gpu_links[link].lanes, first->gpu_links[link].lanes);
      EXPECT_EQ(second->gpu_links[link].peer, first->gpu_links[link].peer);
    }
  }
}

// A channel for each interface, which begins and ends at a GPU next to it.
TEST(NcclGraph, RingsBeginNextToTheirInterface) {
  const Result<Machine> machine = read_machine(eight_gpus());
  ASSERT_TRUE(machine.ok());
  Machine known = *machine;
  std::erase_if(known.nics, [](const Nic& each) { return each.rdma.empty(); });
  for (Nic& each : known.nics) each.mbit_per_s = 400'000;
  const Result<std::string> text = nccl_graph(known);
  ASSERT_TRUE(text.ok()) << text.status().to_string();
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(text->c_str()));
  const pugi::xml_node graph = document.child("graphs").child("graph");
  EXPECT_EQ(graph.attribute("pattern").as_int(), 4);
  EXPECT_EQ(graph.attribute("nchannels").as_int(), 8);
  EXPECT_STREQ(graph.attribute("typeinter").as_string(), "PIX");
  std::size_t number = 0;
  for (const pugi::xml_node channel : graph.children("channel")) {
    const int first = channel.child("gpu").attribute("dev").as_int();
    EXPECT_EQ(distance(known.gpus[static_cast<std::size_t>(first)].place, known.nics[number].place)
                  .nearness,
              Nearness::one_switch);
    EXPECT_EQ(std::distance(channel.children("gpu").begin(), channel.children("gpu").end()), 8);
    EXPECT_EQ(std::distance(channel.children("net").begin(), channel.children("net").end()), 2);
    ++number;
  }
  EXPECT_EQ(number, 8U);
  known.nics[2].mbit_per_s = -1;
  EXPECT_NE(nccl_graph(known).status().text().find("the rate of"), std::string_view::npos);
}

TEST(NcclTopology, NeedsAddresses) {
  const TextFile file(kTable);
  const Result<Machine> machine = read_machine(file.path());
  ASSERT_TRUE(machine.ok());
  const Status status = nccl_topology(*machine).status();
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.text().find("PCI address of GPU 0"), std::string_view::npos) << status.text();
}

}  // namespace
}  // namespace weft
