// hwloc's XML as other machines and versions write it, ours, and what must not reach hwloc.
#include <algorithm>
#include <sstream>

#include "tests/hardware/machines.h"
#include "topology/hardware/hwloc_library.h"

namespace weft {
namespace {

constexpr const char* kMachine =
    R"(<object type="Machine" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1">)";
constexpr const char* kNode =
    R"(<object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1"/>)";
constexpr const char* kProcessor =
    R"(<object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1"/>)";

// A machine with one processor and `more` in it, each on a line of its own.
std::string with(const std::string& more) {
  return std::string("<topology version=\"2.0\">\n") + kMachine + "\n" + kNode + "\n" + kProcessor +
         "\n" + more + "\n</object></topology>\n";
}

// The complaint after the file's name: "5: …".
std::string complaint(const std::string& text) {
  const TextFile file(text);
  const std::string all(read_machine(file.path()).status().text());
  EXPECT_TRUE(all.starts_with(file.path() + ":")) << all;
  return all.substr(std::min(all.size(), file.path().size() + 1));
}

// What hwloc itself makes of a file, written in the format that its versions 1 read and write.
std::string as_version_1(const std::string& path) {
  std::stringstream file;
  file << std::ifstream(path).rdbuf();
  const std::string given = file.str();
  const hardware::Hwloc& hwloc = *hardware::hwloc_library().value();
  hwloc_topology_t topology = nullptr;
  EXPECT_EQ(hwloc.init(&topology), 0);
  hwloc.set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
  EXPECT_EQ(hwloc.set_xmlbuffer(topology, given.c_str(), static_cast<int>(given.size()) + 1), 0);
  EXPECT_EQ(hwloc.load(topology), 0);
  char* text = nullptr;
  int bytes = 0;
  EXPECT_EQ(hwloc.export_xmlbuffer(topology, &text, &bytes, HWLOC_TOPOLOGY_EXPORT_XML_FLAG_V1), 0);
  std::string xml(text);
  hwloc.free_xmlbuffer(topology, text);
  hwloc.destroy(topology);
  return xml;
}

Machine without_source(Machine machine) {
  machine.source.clear();
  return machine;
}

TEST(HwlocXml, BothFormatsGiveOneMachine) {
  const Result<Machine> second = read_machine(eight_gpus());
  const TextFile file(as_version_1(eight_gpus()));
  const Result<Machine> first = read_machine(file.path());
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(without_source(*first), without_source(*second));
}

TEST(HwlocXml, ACardWithTwoPortsIsTwoInterfaces) {
  const TextFile file(with(
      R"(<object type="Bridge" bridge_type="0-1" depth="0" bridge_pci="0001:[10-11]">
<object type="PCIDev" pci_busid="0001:10:00.0" pci_type="0200 [15b3:101d] [0000:0000] 00" pci_link_speed="31.5">
<object type="OSDev" name="mlx5_0" osdev_type="3"/><object type="OSDev" name="ens1f0" osdev_type="2"/>
<object type="OSDev" name="ens1f1" osdev_type="2"/></object></object>)"));
  const Result<Machine> machine = read_machine(file.path());
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  ASSERT_EQ(machine->nics.size(), 2U);
  EXPECT_EQ(nic(*machine, "mlx5_0").netdev, "ens1f0");
  EXPECT_EQ(nic(*machine, "mlx5_0:2").netdev, "ens1f1");
  EXPECT_EQ(nic(*machine, "mlx5_0:2").place.host_bridge, "0001:10");
  EXPECT_EQ(distance(machine->nics[0].place, machine->nics[1].place).nearness,
            Nearness::same_device);
}

// Its third format has device types as bit masks and one field more in `pci_type`.
TEST(HwlocXml, OfVersion3) {
  const Result<Machine> machine = read_machine(WEFT_CORPUS "/hwloc/v3.xml");
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_EQ(machine->cores, 1);
  EXPECT_EQ(machine->gpus.size(), 1U);
  ASSERT_EQ(machine->nics.size(), 2U);
  EXPECT_EQ(nic(*machine, "mlx5_0").netdev, "ib0");
  EXPECT_EQ(nic(*machine, "eth0").rdma, "");
  EXPECT_TRUE(machine->left_out.empty());
}

TEST(HwlocXml, OfVersion2AsHwloc3WritesIt) {
  const Result<Machine> machine = read_machine(WEFT_CORPUS "/hwloc/v2-by-v3.xml");
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_EQ(nic(*machine, "eth0").place.address, "0000:02:00.0");
  EXPECT_TRUE(machine->gpus.empty());
  EXPECT_EQ(
      machine->left_out,
      (std::vector<std::string>{"0000:03:00.0 (a display of the server's own, no accelerator)",
                                "NVLinkBandwidth (a matrix of links, which Weft does not read)"}));
}

TEST(HwlocXml, ACardWithoutAnInterfaceIsNamed) {
  const TextFile file(with(
      R"(<object type="Bridge" bridge_type="0-1" bridge_pci="0001:[10-11]"><object type="PCIDev" pci_busid="0001:10:00.0" pci_type="0200 [15b3:101d] [0000:0000] 00"/></object>)"));
  const Result<Machine> machine = read_machine(file.path());
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_EQ(machine->left_out,
            (std::vector<std::string>{
                "0001:10:00.0 (a network card for which the system has no interface)"}));
}

std::string card(const std::string& ids, const std::string& rest) {
  return R"(<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[10-11]"><object type="PCIDev" pci_busid="0000:10:00.0" pci_type=")" +
         ids + R"( [0000:0000] 00" )" + rest + "</object>";
}

TEST(HwlocXml, ARateThatIsNotPossibleIsUnknownAndSaid) {
  for (const std::string rate : {"nan", "inf", "-1", "fast"}) {
    const TextFile file(with(card("0302 [10de:2330]", "pci_link_speed=\"" + rate + "\"/>")));
    const Result<Machine> machine = read_machine(file.path());
    ASSERT_TRUE(machine.ok()) << machine.status().to_string();
    ASSERT_EQ(machine->gpus.size(), 1U);
    EXPECT_EQ(machine->gpus[0].place.gbyte_per_s, 0);
    EXPECT_EQ(
        machine->left_out,
        std::vector<std::string>{"pci_link_speed of 0000:10:00.0 (a rate that is not possible)"});
  }
}

TEST(HwlocXml, AFileWithoutDevicesSaysSo) {
  const Result<Machine> bare = read_machine(TextFile(with("")).path());
  ASSERT_TRUE(bare.ok()) << bare.status().to_string();
  EXPECT_EQ(unknown_in(*bare),
            (std::vector<std::string>{"which network interfaces and GPUs there are, because the "
                                      "file has no devices of any kind"}));
  const Result<Machine> with_card =
      read_machine(TextFile(with(card("0106 [8086:a182]", "/>"))).path());
  ASSERT_TRUE(with_card.ok()) << with_card.status().to_string();
  EXPECT_TRUE(unknown_in(*with_card).empty());
  const Result<std::string> ours = export_machine("synthetic:pack:1 core:1 pu:1");
  ASSERT_TRUE(ours.ok());
  EXPECT_TRUE(unknown_in(*read_machine(TextFile(*ours).path())).empty()) << "whose notes have none";
}

TEST(HwlocXml, InterfacesAreInTheOrderOfTheirNumbers) {
  const TextFile file(with(card(
      "0200 [15b3:101d]",
      R"(><object type="OSDev" name="mlx5_10" osdev_type="3"/><object type="OSDev" name="mlx5_2" osdev_type="3"/></object>)")));
  const Result<Machine> machine = read_machine(file.path());
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  ASSERT_EQ(machine->nics.size(), 2U);
  EXPECT_EQ(machine->nics[0].name(), "mlx5_2");
  EXPECT_EQ(machine->nics[1].name(), "mlx5_10");
}

// The number of the device says it, as nothing else in such a file does.
TEST(HwlocXml, AVirtualFunctionIsTold) {
  const std::string device = R"(><object type="OSDev" name="mlx5_0" osdev_type="3"/></object>)";
  const Result<Machine> part =
      read_machine(TextFile(with(card("0200 [15b3:101e]", device))).path());
  const Result<Machine> whole =
      read_machine(TextFile(with(card("0200 [15b3:101d]", device))).path());
  ASSERT_TRUE(part.ok() && whole.ok());
  EXPECT_TRUE(nic(*part, "mlx5_0").is_virtual_function);
  EXPECT_FALSE(nic(*whole, "mlx5_0").is_virtual_function);
}

// An object with its sets of processors and nodes.
std::string object(const std::string& type, const std::string& processors,
                   const std::string& nodes) {
  std::string text = "<object type=\"" + type + "\"";
  for (const std::string key : {"cpuset", "complete_cpuset"})
    text += " " + key + "=\"" + processors + "\"";
  for (const std::string key : {"nodeset", "complete_nodeset"})
    text += " " + key + "=\"" + nodes + "\"";
  return text;
}

std::string numbered(const std::string& type, int number, const std::string& processors,
                     const std::string& nodes) {
  return object(type, processors, nodes) + " os_index=\"" + std::to_string(number) + "\"/>";
}

std::string gpu_at(const std::string& bus) {
  return "<object type=\"Bridge\" bridge_type=\"0-1\" bridge_pci=\"0000:[" + bus + "-" + bus +
         "]\"><object type=\"PCIDev\" pci_busid=\"0000:" + bus +
         ":00.0\" pci_type=\"0302 [10de:2330] [0000:0000] 00\"/></object>";
}

Machine machine_of(const std::string& processors, const std::string& nodes,
                   const std::string& inside) {
  const TextFile file("<topology version=\"2.0\">" + object("Machine", processors, nodes) + ">" +
                      inside + "</object></topology>");
  const Result<Machine> machine = read_machine(file.path());
  EXPECT_TRUE(machine.ok()) << machine.status().to_string();
  return machine.ok() ? *machine : Machine();
}

// A GPU's memory is a node that has the processors of its package, too.
TEST(HwlocXml, ANodeOfMemoryAloneHasNoProcessorsAndNoDevices) {
  const auto package = [](int number) {
    const std::string processors = number == 0 ? "0x1" : "0x2", own = number == 0 ? "0x1" : "0x2";
    const std::string both = number == 0 ? "0x5" : "0xa";
    const std::string bus = number == 0 ? "10" : "20";
    return object("Package", processors, both) + ">" +
           numbered("NUMANode", number, processors, own) +
           numbered("NUMANode", number + 2, processors, number == 0 ? "0x4" : "0x8") +
           numbered("PU", number, processors, both) + gpu_at(bus) + "</object>";
  };
  const Machine machine = machine_of("0x3", "0xf", package(0) + package(1));
  ASSERT_EQ(machine.gpus.size(), 2U);
  EXPECT_EQ(machine.gpus[0].place.numa_node, 0);
  EXPECT_EQ(machine.gpus[1].place.numa_node, 1);
  for (const NumaNode& node : machine.nodes) EXPECT_EQ(node.processors.empty(), node.index >= 2);
}

// Clusters of one package (SNC) are nearer to each other than to another package.
TEST(HwlocXml, NodesOfOnePackageAreNearerThanOfAnother) {
  const std::vector<std::string> sets{"0x1", "0x2", "0x4"};
  const std::vector<std::string> buses{"10", "20", "30"};
  const auto cluster = [&](int number) {
    const std::string& set = sets[static_cast<std::size_t>(number)];
    return object("Group", set, set) + ">" + numbered("NUMANode", number, set, set) +
           numbered("PU", number, set, set) + gpu_at(buses[static_cast<std::size_t>(number)]) +
           "</object>";
  };
  const Machine machine =
      machine_of("0x7", "0x7",
                 object("Package", "0x3", "0x3") + ">" + cluster(0) + cluster(1) + "</object>" +
                     object("Package", "0x4", "0x4") + ">" + cluster(2) + "</object>");
  ASSERT_EQ(machine.gpus.size(), 3U);
  const PciPlace& first = machine.gpus[0].place;
  EXPECT_EQ(distance(first, machine.gpus[1].place).nearness, Nearness::package);
  EXPECT_EQ(distance(first, machine.gpus[2].place).nearness, Nearness::machine);
  EXPECT_EQ(distance(first, machine.nodes[1]), Nearness::package);
  EXPECT_EQ(distance(first, machine.nodes[2]), Nearness::machine);
}

TEST(HwlocXml, WhatHwlocCouldNotBearIsToldWithItsLine) {
  ASSERT_TRUE(read_machine(TextFile(with("")).path()).ok());
  std::string deep;
  for (int i = 0; i < 50'000; ++i) deep += R"(<object type="Misc" name="x">)";
  for (int i = 0; i < 50'000; ++i) deep += "</object>";
  EXPECT_EQ(complaint(with(deep)), "5: objects are nested too deep");
  EXPECT_EQ(
      complaint(with(
          R"(<object type="PU" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1"/>)")),
      "5: a PU needs os_index");
  EXPECT_EQ(
      complaint(with(
          R"(<object type="PU" os_index="4294967294" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1"/>)")),
      "5: os_index: 4294967294 is not in [0, 8191]");
  EXPECT_EQ(complaint(with(R"(<object type="Core" os_index="0" cpuset="0x1"/>)")),
            "5: a Core needs complete_cpuset");
  EXPECT_EQ(complaint(with(R"(<object type="Bridge" bridge_type="7-1"/>)")),
            "5: bridge_type: neither 0-1 nor 1-1");
  EXPECT_EQ(complaint(with(R"(<object type="OSDev" osdev_type="99"/>)")),
            "5: osdev_type: 99 is not in [0, 6]");
  EXPECT_EQ(complaint(with(R"(<object type="Bridge" bridge_type="0-1"/>)")),
            "5: a Bridge needs bridge_pci");
  EXPECT_EQ(complaint(with(R"(<object type="Bridge" bridge_type="1-1" bridge_pci="0:[1-2]"/>)")),
            "5: a Bridge needs pci_busid");
  EXPECT_EQ(complaint(with(R"(<object type="PCIDev" pci_busid="0000:10:00"/>)")),
            "5: pci_busid: no address on PCI");
  EXPECT_EQ(complaint(with(R"(<object type="Sofa"/>)")), "5: type: Sofa is not known");
  EXPECT_EQ(complaint(with("<object/>")), "5: <object> needs a type");
  EXPECT_EQ(complaint(with(kMachine + std::string("</object>"))), "5: a Machine cannot be here");
  EXPECT_EQ(complaint(with("<object type=\"Misc\" name=\"a&#27;[1m\"/>")),
            "5: name: has a control character");
}

TEST(HwlocXml, WhatIsNoMachineIsToldWithItsLine) {
  EXPECT_EQ(complaint("<topology/>"), "1: <topology> has no <object>");
  EXPECT_EQ(complaint("<topology version=\"4.0\"><object/></topology>"),
            "1: version 4.0 of hwloc's format is not known");
  EXPECT_EQ(complaint("<svg/>"), "1: <svg> is neither hwloc's <topology> nor NCCL's <system>");
  EXPECT_EQ(complaint("<topology>\n<object"), "2: Error parsing start element tag");
  EXPECT_EQ(complaint(std::string("<topology>\n") + kMachine + "</object></topology>"),
            "2: no object of type PU: a machine has processors");
  EXPECT_NE(complaint("").find("is empty"), std::string::npos);
}

TEST(HwlocXml, NamesAreThoseOfOneDevice) {
  const std::string card =
      R"(<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[10-11]"><object type="PCIDev" pci_busid="0000:10:00.0" pci_type="0200 [15b3:101d] [0000:0000] 00"><object type="OSDev" name="eth0" osdev_type="2"/></object></object>)";
  EXPECT_EQ(complaint(with(card + card)), " two network interfaces are called eth0");
}

TEST(SyntheticMachines, AreBounded) {
  EXPECT_EQ(read_machine("synthetic:core:4097 pu:1").status().text(),
            "synthetic:core:4097 pu:1: more than 4096 processors at character 6");
  EXPECT_EQ(read_machine("synthetic:99999999999999999999").status().code(), Code::invalid_argument);
  EXPECT_EQ(read_machine("synthetic:core:1\x1b pu:1").status().text(),
            "synthetic: has characters that are not ASCII's");
  EXPECT_EQ(read_machine("synthetic:4096 4503599627370496 1").status().code(),
            Code::invalid_argument);  // their product is 0 in 64 bits
  EXPECT_EQ(
      read_machine("synthetic:pack:1( core:99999 pu:1").status().text(),
      "synthetic:pack:1( core:99999 pu:1: an attribute like memory=1GB is wanted at character 8");
  // Each of these once ended the process, or kept it for 20 s.
  EXPECT_EQ(read_machine("synthetic:8111pu: 65").status().text(),
            "synthetic:8111pu: 65: more than 4096 processors at character 1");
  EXPECT_EQ(read_machine("synthetic:2 pu:1(indexes=4294967295,3)")->threads, 2);
  EXPECT_EQ(read_machine("synthetic:2 pu:1(indexes=cor2)")->threads, 2);
  EXPECT_EQ(read_machine("synthetic:").status().text(),
            "synthetic:: a level like pack:2 is wanted at character 1");
  EXPECT_EQ(read_machine("synthetic:" + std::string(5000, '1')).status().code(),
            Code::invalid_argument);
  EXPECT_TRUE(
      read_machine("synthetic:pack:4 [numa(memory=1GB)] core:16(indexes=core:pack) pu:2").ok());
}

}  // namespace
}  // namespace weft
