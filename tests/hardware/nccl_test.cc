// Topology files of NCCL.
#include "tests/hardware/machines.h"

namespace weft {
namespace {

constexpr const char* kTwoGpus = R"(<system version="1">
  <cpu numaid="0" affinity="00ff" arch="x86_64" vendor="GenuineIntel">
    <pci busid="0000:16:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:18:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:5e:00.0" count="12" tclass="0x030200"/>
          <nvlink target="0000:07:00.0" count="6" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:19:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x9803" gdr="1"/>
        </nic>
      </pci>
    </pci>
    <nic>
      <net name="eth0" dev="1" speed="10000" port="0" guid="0x0"/>
    </nic>
  </cpu>
  <cpu numaid="1" affinity="ff00" arch="x86_64">
    <pci busid="0000:5e:00.0" class="0x030200" link_speed="8.0 GT/s PCIe" link_width="8">
      <gpu dev="1" sm="90" rank="1"/>
    </pci>
  </cpu>
</system>
)";

TEST(NcclFile, GpusNetworksAndLinks) {
  const TextFile file(kTwoGpus);
  const Result<Machine> machine = read_machine(file.path());
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  ASSERT_EQ(machine->gpus.size(), 2U);
  EXPECT_EQ(machine->gpus[1].place.numa_node, 1);
  EXPECT_NEAR(machine->gpus[0].place.gbyte_per_s, 63.0, 0.1);  // 16 lanes of 32 GT/s
  EXPECT_NEAR(machine->gpus[1].place.gbyte_per_s, 7.9, 0.1);
  const Nic& near = nic(*machine, "mlx5_0");
  EXPECT_EQ(near.mbit_per_s, 400'000);
  EXPECT_EQ(near.rdma, "mlx5_0");
  EXPECT_EQ(distance(machine->gpus[0].place, near.place).nearness, Nearness::one_switch);
  EXPECT_EQ(distance(machine->gpus[1].place, near.place).nearness, Nearness::machine);
  EXPECT_EQ(nic(*machine, "eth0").netdev, "eth0");
  EXPECT_EQ(nic(*machine, "eth0").place.numa_node, 0);
  ASSERT_EQ(machine->gpu_links.size(), 2U);
  EXPECT_EQ(machine->gpu_links[0].peer, 1);
  EXPECT_EQ(machine->gpu_links[0].lanes, 12);
  EXPECT_EQ(machine->gpu_links[1].peer, GpuLink::kSwitch);
  EXPECT_EQ(machine->gpu_links[1].gbyte_per_s, 150);
  EXPECT_TRUE(unknown_in(*machine).empty());
}

TEST(NcclFile, WhatIsWrongIsNamedWithItsLine) {
  const TextFile no_node("<system version=\"1\">\n  <cpu arch=\"x86_64\"/>\n</system>\n");
  EXPECT_EQ(read_machine(no_node.path()).status().text(),
            no_node.path() + ":2: <cpu> needs numaid");
  const TextFile no_address(
      "<system version=\"1\">\n  <cpu numaid=\"0\">\n    <pci/>\n  </cpu>\n</system>\n");
  EXPECT_EQ(read_machine(no_address.path()).status().text(),
            no_address.path() + ":3: <pci> needs busid");
  const TextFile cut("<system version=\"1\">\n  <cpu numaid=\"0\"");
  EXPECT_TRUE(read_machine(cut.path()).status().text().starts_with(cut.path() + ":2: "));
  const TextFile empty("<system version=\"1\"/>");
  EXPECT_EQ(read_machine(empty.path()).status().code(), Code::invalid_argument);
}

TEST(NcclFile, DepthIsBounded) {
  std::string deep = "<system><cpu numaid=\"0\">";
  for (int i = 0; i < 100; ++i) deep += "<pci busid=\"0\">";
  for (int i = 0; i < 100; ++i) deep += "</pci>";
  const TextFile file(deep + "</cpu></system>");
  EXPECT_NE(read_machine(file.path()).status().text().find("too deep"), std::string::npos);
}

}  // namespace
}  // namespace weft
