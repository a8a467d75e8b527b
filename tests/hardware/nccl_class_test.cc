// Topology files of NCCL's kind whose devices only their PCI class tells, links that are not NVLink's,
// and what the reader says that it leaves out.
#include <algorithm>

#include "tests/hardware/machines.h"

namespace weft {
namespace {

constexpr const char* kClasses = WEFT_CORPUS "/nccl/by-class.xml";

Result<Machine> machine_with(const std::string& devices) {
  const TextFile file("<system version=\"1\">\n<cpu numaid=\"0\">\n" + devices +
                      "\n</cpu></system>");
  return read_machine(file.path());
}

std::string device(const std::string& rest) {
  return "<pci busid=\"0000:03:00.0\" " + rest + "/>";
}

// One device of these attributes: "accelerator", "interface", or what is said of it.
std::string what_is(const std::string& attributes) {
  const Result<Machine> machine = machine_with(device(attributes));
  if (!machine.ok()) return std::string(machine.status().text());
  if (!machine->gpus.empty()) return "accelerator";
  if (!machine->nics.empty()) return machine->nics[0].rdma.empty() ? "Ethernet" : "RDMA";
  return machine->left_out.empty() ? "nothing" : machine->left_out[0];
}

TEST(NcclClasses, GpusAndInterfacesOfFilesThatCloudsShip) {
  const Result<Machine> machine = read_machine(kClasses);
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  ASSERT_EQ(machine->gpus.size(), 2U);
  EXPECT_EQ(machine->gpus[0].place.address, "0000:20:1c.0");  // numbered by their addresses
  EXPECT_EQ(machine->gpus[1].place.address, "0001:00:00.0");
  ASSERT_EQ(machine->nics.size(), 2U);
  EXPECT_EQ(nic(*machine, "0101:00:00.0").rdma, "0101:00:00.0");
  EXPECT_EQ(nic(*machine, "0000:20:1b.0").rdma, "0000:20:1b.0");  // EFA, of Ethernet's class
  EXPECT_EQ(distance(machine->gpus[1].place, nic(*machine, "0101:00:00.0").place).nearness,
            Nearness::one_switch);
  EXPECT_EQ(machine->left_out, std::vector<std::string>());
  EXPECT_EQ(unknown_in(*machine),
            (std::vector<std::string>{"the rate of 0000:20:1b.0, 0101:00:00.0",
                                      "whether NVLink or xGMI connects the GPUs"}));
}

TEST(NcclClasses, ACorrectionGivesTheirRates) {
  Result<Machine> machine = read_machine(kClasses);
  ASSERT_TRUE(machine.ok());
  const TextFile rates(
      "[[nic]]\nname = \"0101:00:00.0\"\nrdma = \"mlx5_0\"\nmbit_per_s = 200_000\n");
  ASSERT_TRUE(correct_machine(*machine, rates.path()).ok());
  EXPECT_EQ(nic(*machine, "mlx5_0").mbit_per_s, 200'000);
  EXPECT_EQ(machine->nics.size(), 2U);
}

TEST(NcclClasses, NumbersThatAFileGivesAreTaken) {
  const Result<Machine> machine = machine_with(
      "<pci busid=\"0000:05:00.0\" class=\"0x030200\"/>\n"
      "<pci busid=\"0000:04:00.0\" class=\"0x030200\"><gpu dev=\"0\"/></pci>\n"
      "<pci busid=\"0000:01:00.0\" class=\"0x120000\"/>");
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  ASSERT_EQ(machine->gpus.size(), 3U);
  EXPECT_EQ(machine->gpus[0].place.address, "0000:04:00.0");
  EXPECT_EQ(machine->gpus[1].place.address, "0000:01:00.0");
  EXPECT_EQ(machine->gpus[2].place.address, "0000:05:00.0");
}

TEST(NcclClasses, AServersOwnDisplayIsNoAccelerator) {
  const std::string wide = R"( link_speed="16.0 GT/s PCIe" link_width="16")";
  const std::string narrow = R"( link_speed="5.0 GT/s PCIe" link_width="1")";
  const std::string display = "0000:03:00.0 (a display of the server's own, no accelerator)";
  EXPECT_EQ(what_is(R"(class="0x030200")"), "accelerator");
  EXPECT_EQ(what_is(R"(class="0x038000")"), "accelerator");
  EXPECT_EQ(what_is(R"(class="0x120000")"), "accelerator");
  EXPECT_EQ(what_is(R"(class="0x030000")"), display);
  EXPECT_EQ(what_is(R"(class="0x030000" link_speed="" link_width="0")"), display);
  EXPECT_EQ(what_is(R"(class="0x030000")" + narrow), display);
  EXPECT_EQ(what_is(R"(class="0x030000" vendor="0x1a03")" + narrow), display);
  // AMD's (ATI's) ES1000; of AMD's later GPUs, a link need not be told.
  EXPECT_EQ(what_is(R"(class="0x030000" vendor="0x1002" device="0x515e")"), display);
  EXPECT_EQ(what_is(R"(class="0x030000" vendor="0x1002" device="0x67df")"), "accelerator");
  EXPECT_EQ(what_is(R"(class="0x038000" vendor="0x1af4")"), display);  // a virtual machine's
  EXPECT_EQ(what_is(R"(class="0x030000")" + wide), "accelerator");
  EXPECT_EQ(what_is(R"(class="0x030000" vendor="0x10de")"), "accelerator");
}

TEST(NcclClasses, WhatIsLeftOutIsSaid) {
  EXPECT_EQ(what_is(R"(class="0x020000")"), "Ethernet");
  EXPECT_EQ(what_is(R"(class="0x020700")"), "RDMA");
  EXPECT_EQ(what_is(R"(class="0x010802")"),
            "0000:03:00.0 of class 0x0108 (neither an accelerator nor a network interface)");
  EXPECT_EQ(what_is(""), "0000:03:00.0 (a PCI device of unknown class)");
  EXPECT_EQ(what_is(R"(class="GPU")"), "0000:03:00.0 (a PCI device of unknown class)");
  EXPECT_EQ(what_is(R"(class="0x060400")"), "nothing");  // a bridge
  const Result<Machine> machine =
      machine_with(R"(<pci busid="0000:03:00.0"><gpu dev="0"><c2c count="1"/></gpu>)"
                   R"(<pcilink target="0000:04:00.0"/><pcilink target="0000:05:00.0"/></pci>)");
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_EQ(machine->left_out,
            (std::vector<std::string>{"<c2c>, <pcilink> (an element that Weft does not read)"}));
}

TEST(NcclClasses, OneAddressIsOneInterface) {
  const std::string card = device(R"(class="0x020000")");
  const Status status = machine_with(card + "\n" + card).status();
  EXPECT_NE(status.text().find(":4: busid: there are two interfaces at 0000:03:00.0"),
            std::string_view::npos)
      << status.text();
}

TEST(NcclLinks, OfAmd) {
  const Result<Machine> machine = read_machine(WEFT_CORPUS "/nccl/xgmi.xml");
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_EQ(machine->gpu_links, (std::vector<GpuLink>{{0, 1, 2, 92, GpuLinkKind::xgmi},
                                                      {1, 0, 2, 92, GpuLinkKind::xgmi}}));
  EXPECT_TRUE(machine->left_out.empty());
}

TEST(NcclLinks, OfAnArchitectureThatIsUnknown) {
  const Result<Machine> machine = machine_with(
      R"(<pci busid="0000:03:00.0"><gpu dev="0" gcn="gfx1"><xgmi target="0000:04:00.0")"
      R"( count="2"/></gpu></pci><pci busid="0000:04:00.0"><gpu dev="1"/></pci>)");
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  ASSERT_EQ(machine->gpu_links.size(), 1U);
  EXPECT_EQ(machine->gpu_links[0].lanes, 2);
  EXPECT_EQ(machine->gpu_links[0].gbyte_per_s, 0);
  EXPECT_EQ(unknown_in(*machine).back(), "the rate of links between GPUs");
}

TEST(NcclLinks, AGpuIsNotLinkedToItself) {
  const Result<Machine> machine = read_machine(WEFT_CORPUS "/nccl/self-link.xml");
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_TRUE(machine->gpu_links.empty());
  EXPECT_EQ(machine->left_out,
            (std::vector<std::string>{"GPU 0 to 0001:00:00.0 (a link from a GPU to itself)"}));
}

TEST(NcclLinks, ToWhatIsNoGpu) {
  const Result<Machine> machine =
      machine_with(R"(<pci busid="0000:03:00.0"><gpu dev="0"><nvlink target="0004:01:00.0")"
                   R"( tclass="0x068001"/></gpu></pci>)");
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_TRUE(machine->gpu_links.empty());
  EXPECT_EQ(machine->left_out,
            (std::vector<std::string>{"GPU 0 to 0004:01:00.0 (a link whose other end is neither a "
                                      "GPU of the file nor a switch)"}));
}

}  // namespace
}  // namespace weft
