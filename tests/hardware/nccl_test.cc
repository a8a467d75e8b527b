// Topology files of NCCL.
#include <fmt/format.h>
#include <fmt/ranges.h>

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
          <nvlink target="0000:08:00.0" count="2" tclass="0x068000"/>
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
  // Two switches are one connection of more lanes.
  EXPECT_EQ(machine->gpu_links,
            (std::vector<GpuLink>{{0, GpuLink::kSwitch, 8, 200}, {0, 1, 12, 300}}));
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

// As NCCL writes in virtual machines.
TEST(NcclFile, AProcessorMayNotTellItsNode) {
  const TextFile file(
      "<system><cpu numaid=\"-1\" arch=\"x86_64\">"
      "<pci busid=\"0000:17:00.0\"><gpu dev=\"0\"/></pci>"
      "<pci busid=\"0000:18:00.0\"><gpu dev=\"1\"/></pci>"
      "<nic><net name=\"eth0\" speed=\"10000\"/></nic></cpu></system>");
  const Result<Machine> machine = read_machine(file.path());
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_TRUE(machine->nodes.empty());
  EXPECT_EQ(machine->packages, 1);
  EXPECT_EQ(machine->gpus[0].place.numa_node, -1);
  EXPECT_FALSE(machine->gpus[0].place.is_node_assumed);
  EXPECT_EQ(distance(machine->gpus[0].place, machine->gpus[1].place).nearness,
            Nearness::host_bridge);
  EXPECT_EQ(unknown_in(*machine),
            (std::vector<std::string>{"the NUMA node of eth0", "the NUMA node of GPU 0, GPU 1"}));
}

TEST(NcclFile, OfSeveralHostsIsNoMachine) {
  const auto complaint = [](const std::string& hosts) {
    const TextFile file("<system>\n" + hosts + "</system>");
    const std::string all(read_machine(file.path()).status().text());
    return all.substr(std::min(all.size(), file.path().size() + 1));
  };
  EXPECT_EQ(complaint("<cpu host_hash=\"0x1\" numaid=\"0\"/>\n<cpu host_hash=\"0x1\" "
                      "numaid=\"1\"/>\n<cpu host_hash=\"0x2\" numaid=\"0\"/>\n"),
            "4: host_hash: the file describes several hosts: 0x2 here, 0x1 before; keep the <cpu> "
            "of one");
  EXPECT_EQ(complaint("<cpu host_hash=\"0x1\" numaid=\"0\"/>\n"
                      "<cpu host_hash=\"0x1\" numaid=\"1\"/>\n"),
            "");
  EXPECT_EQ(complaint("<cpu numaid=\"-1\"/>\n<cpu numaid=\"-1\"/>\n"),
            "3: numaid: there are two <cpu> of -1");
}

// Sockets have port 0. Plugins write the number of their device as its GUID.
TEST(NcclFile, PortsTellWhoHasRdmaWhateverTheirGuidIs) {
  const TextFile file(
      "<system><cpu numaid=\"0\"><nic>"
      "<net name=\"cxi0\" port=\"1\" guid=\"0x0\" gdr=\"0\"/>"
      "<net name=\"plugin0\" port=\"0\" guid=\"0x0\" gdr=\"1\"/>"
      "<net name=\"eth1\" port=\"0\" guid=\"0x1\" gdr=\"0\"/></nic></cpu></system>");
  const Result<Machine> machine = read_machine(file.path());
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_EQ(nic(*machine, "cxi0").rdma, "cxi0");
  EXPECT_EQ(nic(*machine, "plugin0").rdma, "plugin0");
  EXPECT_EQ(nic(*machine, "eth1").rdma, "");
}

// NCCL puts what it does not find on PCI below the first processor.
TEST(NcclFile, TheNodeOfInterfacesBesidePciIsAssumed) {
  const TextFile file(
      "<system><cpu numaid=\"0\"><nic><net name=\"bond0\" port=\"0\"/></nic></cpu>"
      "<cpu numaid=\"1\"><nic><net name=\"bond1\" port=\"0\"/></nic></cpu></system>");
  Result<Machine> machine = read_machine(file.path());
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_TRUE(nic(*machine, "bond0").place.is_node_assumed);
  EXPECT_FALSE(nic(*machine, "bond1").place.is_node_assumed);
  ASSERT_EQ(remarks_on(*machine).size(), 1U);
  EXPECT_EQ(
      remarks_on(*machine)[0].phrases,
      (std::vector<std::string>{"bond0 on node 0, where NCCL puts what it does not find on PCI"}));
  const TextFile rate("[[nic]]\nname = \"bond0\"\nmbit_per_s = 25_000\n");
  ASSERT_TRUE(correct_machine(*machine, rate.path()).ok());
  EXPECT_EQ(nic(*machine, "bond0").place.numa_node, 0);
  const TextFile node("[[nic]]\nname = \"bond0\"\nnuma_node = 1\n");
  ASSERT_TRUE(correct_machine(*machine, node.path()).ok());
  EXPECT_TRUE(remarks_on(*machine).empty());
  EXPECT_EQ(nic(*machine, "bond0").place.package, 1);
}

TEST(NcclFile, ACardWithoutAnInterfaceIsSaid) {
  const TextFile file(
      "<system><cpu numaid=\"0\"><pci busid=\"0000:01:00.0\"><gpu dev=\"0\"/>"
      "<nic dev=\"mlx5_0\"/></pci></cpu></system>");
  const Result<Machine> machine = read_machine(file.path());
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_EQ(machine->left_out, std::vector<std::string>{"0000:01:00.0 (a <nic> without <net>)"});
}

TEST(NcclFile, ARateThatIsNotPossibleIsUnknownAndSaid) {
  for (const std::string rate : {"200000000", "-5", "fast", "99999999999999999999"}) {
    const TextFile file("<system><cpu numaid=\"0\"><nic><net name=\"a\" speed=\"" + rate +
                        "\"/><net name=\"b\" speed=\"1000\"/></nic></cpu></system>");
    const Result<Machine> machine = read_machine(file.path());
    ASSERT_TRUE(machine.ok()) << machine.status().to_string();
    EXPECT_EQ(nic(*machine, "a").mbit_per_s, -1);
    EXPECT_EQ(nic(*machine, "b").mbit_per_s, 1000);
    EXPECT_EQ(
        machine->left_out,
        (std::vector<std::string>{"speed=\"" + rate + "\" of a (a rate that is not possible)"}));
  }
  for (const std::string link :
       {R"(link_speed="nan GT/s" link_width="16")", R"(link_speed="16 GT/s" link_width="-4")"}) {
    const TextFile file("<system><cpu numaid=\"0\"><pci busid=\"0000:01:00.0\" " + link +
                        "><gpu dev=\"0\"/></pci></cpu></system>");
    const Result<Machine> machine = read_machine(file.path());
    ASSERT_TRUE(machine.ok()) << machine.status().to_string();
    EXPECT_EQ(machine->gpus[0].place.gbyte_per_s, 0);
    EXPECT_EQ(machine->left_out.size(), 1U);
  }
}

TEST(NcclFile, NumbersAreCheckedAndNamesTakenOnce) {
  const auto complaint = [](const std::string& devices) {
    const TextFile file("<system>\n<cpu numaid=\"0\">\n" + devices + "\n</cpu></system>");
    const std::string all(read_machine(file.path()).status().text());
    return all.substr(std::min(all.size(), file.path().size() + 1));
  };
  const auto net = [](const std::string& rest) {
    return "<nic><net name=\"a\" " + rest + "/></nic>";
  };
  EXPECT_EQ(complaint(net("speed=\"0\"")), "");  // not told
  EXPECT_EQ(complaint(net("port=\"256\"")), "3: port: 256 is not in [0, 255]");
  EXPECT_EQ(complaint(net("") + "\n" + net("")), "4: name: there are two <net> called a");
  EXPECT_EQ(complaint("<nic><net/></nic>"), "3: <net> needs a name");
  EXPECT_EQ(complaint("<pci busid=\"0000:01:00.0\"><gpu dev=\"1\"/></pci>\n"
                      "<pci busid=\"0000:02:00.0\"><gpu dev=\"1\"/></pci>"),
            "4: dev: there are two <gpu> of 1");
  EXPECT_EQ(complaint("</cpu>\n<cpu numaid=\"0\">"), "4: numaid: there are two <cpu> of 0");
}

// Links name the same GPU, however its address is written.
TEST(NcclFile, AddressesAreCheckedAndWrittenAsTheKernelDoes) {
  for (const std::string address : {"nonsense", "0", "3b:00.0", "0000:3b:00.8", "0000:3b:00.0 "}) {
    const TextFile file("<system><cpu numaid=\"0\">\n<pci busid=\"" + address +
                        "\"/>\n</cpu></system>");
    EXPECT_EQ(read_machine(file.path()).status().text(),
              file.path() + ":2: busid: '" + address + "' is no PCI address (\"0000:3b:00.0\")");
  }
  const TextFile file(
      "<system><cpu numaid=\"0\"><pci busid=\"00000000:3A:00.0\" class=\"0x060400\">"
      "<pci busid=\"00000000:3B:00.0\"><gpu dev=\"0\"/></pci></pci>"
      "<pci busid=\"0000:5e:00.0\"><gpu dev=\"1\"><nvlink target=\"0000:3B:00.0\" count=\"4\"/>"
      "</gpu></pci></cpu></system>");
  const Result<Machine> machine = read_machine(file.path());
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_EQ(machine->gpus[0].place.address, "0000:3b:00.0");
  EXPECT_EQ(machine->gpus[0].place.bridges.at(0).address, "0000:3a:00.0");
  ASSERT_EQ(machine->gpu_links.size(), 1U);
  EXPECT_EQ(machine->gpu_links[0].peer, 0);
}

TEST(NcclFile, AMaskTellsANodesProcessors) {
  const auto read = [](const std::string& mask) {
    const TextFile file("<system>\n<cpu numaid=\"0\" affinity=\"" + mask + "\"/>\n</system>");
    const Result<Machine> machine = read_machine(file.path());
    return machine.ok() ? fmt::format("{}", fmt::join(machine->nodes.at(0).processors, " "))
                        : std::string(machine.status().text().substr(file.path().size() + 1));
  };
  EXPECT_EQ(read("0000000f"), "0 1 2 3");
  EXPECT_EQ(read("f0"), "4 5 6 7");
  EXPECT_EQ(read("80000000,00000001,40000002"), "1 30 32 95");
  EXPECT_EQ(read("00000000,00000000"), "");  // a node of memory alone
  EXPECT_EQ(read(""), "");
  for (const std::string mask : {"all", "0x0f", "-1", "f,", ",f", "f,,f", "1000000001", "f g"}) {
    EXPECT_EQ(read(mask),
              "2: affinity: '" + mask + "' is no mask of processors (\"00000000,0000ffff\")");
  }
  const TextFile two(kTwoGpus);
  const Result<Machine> machine = read_machine(two.path());
  ASSERT_TRUE(machine.ok());
  const NumaNode* node = node_of(*machine, 8);
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(node->index, machine->gpus[1].place.numa_node);
  EXPECT_EQ(node->processors, (std::vector<int>{8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(NcclFile, PortsOfACardAreToldApart) {
  const TextFile file(
      "<system><cpu numaid=\"0\"><pci busid=\"0000:12:00.0\"><nic>"
      "<net name=\"mlx5_0\" port=\"1\" speed=\"200000\" guid=\"0x9\"/>"
      "<net name=\"mlx5_0\" port=\"2\" speed=\"100000\" guid=\"0x9\"/></nic></pci></cpu></system>");
  const Result<Machine> machine = read_machine(file.path());
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_EQ(nic(*machine, "mlx5_0").mbit_per_s, 200'000);
  EXPECT_EQ(nic(*machine, "mlx5_0:2").mbit_per_s, 100'000);
}

TEST(NcclFile, DepthIsBounded) {
  std::string deep = "<system><cpu numaid=\"0\">";
  for (int i = 0; i < 100; ++i) deep += "<pci busid=\"0000:01:00.0\">";
  for (int i = 0; i < 100; ++i) deep += "</pci>";
  const TextFile file(deep + "</cpu></system>");
  EXPECT_NE(read_machine(file.path()).status().text().find("too deep"), std::string::npos);
}

}  // namespace
}  // namespace weft
