// What a user's file adds to a machine.
#include "tests/hardware/machines.h"

namespace weft {
namespace {

Status corrected(Machine& machine, const std::string& text) {
  const TextFile file(text);
  return correct_machine(machine, file.path());
}

TEST(Corrections, RatesAndPlaces) {
  Result<Machine> read = read_machine(eight_gpus());
  ASSERT_TRUE(read.ok());
  Machine machine = std::move(read).value();
  const Status status = corrected(machine, R"(
[[nic]]
name = "mlx5_0"
mbit_per_s = 400_000

[[nic]]
name = "eno1"
absent = true

[[nic]]
name = "mlx5_8"
rdma = "mlx5_8"
numa_node = 1
mbit_per_s = 200_000

[[gpu_link]]
gpu = 0
lanes = 18
gbyte_per_s = 450
)");
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(nic(machine, "mlx5_0").mbit_per_s, 400'000);
  EXPECT_EQ(nic(machine, "mlx5_0").place.numa_node, 0);  // as it was
  EXPECT_EQ(nic(machine, "mlx5_8").place.numa_node, 1);
  EXPECT_EQ(machine.nics.size(), 9U);
  ASSERT_EQ(machine.gpu_links.size(), 1U);
  EXPECT_EQ(machine.gpu_links[0].peer, GpuLink::kSwitch);
}

// An RDMA card has two names.
TEST(Corrections, ACardIsFoundByItsNetworkInterfaceToo) {
  Machine machine;
  Nic card;
  card.rdma = "mlx5_0";
  card.netdev = "ib0";
  machine.nics = {card};
  ASSERT_TRUE(corrected(machine, "[[nic]]\nname = \"ib0\"\nnuma_node = 1\n").ok());
  ASSERT_EQ(machine.nics.size(), 1U);
  EXPECT_EQ(nic(machine, "mlx5_0").place.numa_node, 1);
  ASSERT_TRUE(corrected(machine, "[[nic]]\nname = \"ib0\"\nabsent = true\n").ok());
  EXPECT_TRUE(machine.nics.empty());
}

// As of a topology file that a cloud ships.
TEST(Corrections, ACardThatIsKnownByItsAddressAloneIsGivenItsName) {
  Machine machine;
  for (const std::string address : {"0000:10:1b.0", "0000:20:1b.0"}) {
    Nic card;
    card.netdev = card.place.address = address;
    machine.nics.push_back(card);
  }
  const std::string tables = R"(
[[nic]]
name = "rdmap16s27"
netdev = "ens32"
pci = "00000000:10:1B.0"
mbit_per_s = 100_000
[[nic]]
name = "ens33"
pci = "0000:20:1b.0"
)";
  const Status status = corrected(machine, tables);
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_EQ(machine.nics.size(), 2U);
  EXPECT_TRUE(machine.added.empty());
  EXPECT_EQ(nic(machine, "rdmap16s27").netdev, "ens32");
  EXPECT_EQ(nic(machine, "rdmap16s27").mbit_per_s, 100'000);
  EXPECT_EQ(nic(machine, "ens33").place.address, "0000:20:1b.0");
  // A card that has a name keeps it: a card may have several ports at one address.
  ASSERT_TRUE(corrected(machine, "[[nic]]\nname = \"ens34\"\npci = \"0000:20:1b.0\"\n").ok());
  EXPECT_EQ(machine.nics.size(), 3U);
}

// One file may be for unlike machines; but a name may be mistyped.
TEST(Corrections, WhatIsAbsentAndWasNotThereIsTold) {
  Machine machine;
  Nic card;
  card.netdev = "eth0";
  machine.nics = {card};
  ASSERT_TRUE(corrected(machine, "[[nic]]\nname = \"eht0\"\nabsent = true\n").ok());
  EXPECT_EQ(machine.nics.size(), 1U);
  EXPECT_NE(machine.source.find("eht0 is absent: it was not there"), std::string::npos)
      << machine.source;
}

TEST(Corrections, ADeviceThatWasNotThereIsTold) {
  Machine machine;
  Nic card;
  card.netdev = "eth0";
  machine.nics = {card};
  ASSERT_TRUE(corrected(machine, "[[nic]]\nname = \"eth0\"\nnuma_node = 0\n").ok());
  EXPECT_TRUE(machine.added.empty());
  ASSERT_TRUE(corrected(machine, "[[nic]]\nname = \"eht0\"\n[[gpu]]\nindex = 3\n").ok());
  ASSERT_EQ(machine.added.size(), 1U);
  EXPECT_TRUE(machine.added[0].starts_with("eht0, GPU 3 (by /")) << machine.added[0];
}

// The package is that of the node that is told.
TEST(Corrections, ANodeBringsItsPackage) {
  Machine machine;
  machine.nodes = {{.index = 0, .package = 0}, {.index = 1, .package = 1}};
  machine.packages = 2;
  Nic card;
  card.netdev = "eth0";
  card.place.numa_node = 0;
  card.place.package = 0;
  machine.nics = {card};
  ASSERT_TRUE(corrected(machine, "[[nic]]\nname = \"eth0\"\nnuma_node = 1\n").ok());
  EXPECT_EQ(nic(machine, "eth0").place.package, 1);
}

TEST(Corrections, AVirtualMachineIsToldItsDevices) {
  Result<Machine> read = read_machine("synthetic:pack:1 core:8 pu:1");
  ASSERT_TRUE(read.ok());
  Machine machine = std::move(read).value();
  const Status status = corrected(machine, R"(
[[gpu]]
index = 0
pci = "0000:3b:00.0"
host_bridge = "0000:3a"
bridges = ["0000:3a:00.0", "0000:3a:01.0"]
bridges_gbyte_per_s = [63.0, 31.5]
[[nic]]
name = "mlx5_0"
pci = "0000:3c:00.0"
host_bridge = "0000:3a"
bridges = ["0000:3a:00.0", "0000:3a:02.0"]
)");
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(distance(machine.gpus[0].place, machine.nics[0].place).nearness, Nearness::one_switch);
}

TEST(Corrections, ANameIsOfTheRdmaDeviceOrOfTheNetworkInterface) {
  Machine machine;
  const Status status = corrected(machine, R"(
[[nic]]
name = "mlx5_0:2"
rdma = "mlx5_0"
port = 2
[[nic]]
name = "eth0"
rdma = "mlx5_1"
[[nic]]
name = "eth1"
[[nic]]
name = "mlx5_7:2"
netdev = "ib7"
)");
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(nic(machine, "mlx5_0:2").netdev, "");
  EXPECT_EQ(nic(machine, "mlx5_7:2").netdev, "ib7");
  EXPECT_EQ(nic(machine, "mlx5_1").netdev, "eth0");
  EXPECT_EQ(nic(machine, "eth1").rdma, "");
}

TEST(Corrections, ADeviceIsCorrectedOnce) {
  Machine machine;
  const auto text = [&machine](const std::string& toml) {
    const std::string all(corrected(machine, toml).text());
    return all.substr(std::min(all.size(), all.find(':') + 1));
  };
  EXPECT_EQ(text("[[nic]]\nname = \"a\"\n[[nic]]\nname = \"a\"\n"),
            "3: a second [[nic]] of a: the first is in line 1");
  EXPECT_EQ(text("[[gpu]]\nindex = 0\n[[gpu]]\nindex = 0\n"),
            "3: a second [[gpu]] of GPU 0: the first is in line 1");
  EXPECT_EQ(text("[[gpu]]\nindex = 0\n[[gpu_link]]\ngpu = 0\n[[gpu_link]]\ngpu = 0\n"),
            "5: a second [[gpu_link]] of GPU 0 to the switch: the first is in line 3");
  EXPECT_EQ(text("[[nic]]\nname = \"a\"\n[[nic]]\nname = \"b\"\nrdma = \"c\"\n[[nic]]\nname = "
                 "\"d\"\nrdma = "
                 "\"c\"\n"),
            "1: two network interfaces are called c");
  EXPECT_TRUE(machine.nics.empty());
}

// By whichever of its names, also where the first table takes it away or calls it something else.
TEST(Corrections, ADeviceOfTwoNamesIsCorrectedOnce) {
  Machine machine;
  Nic card;
  card.rdma = "mlx5_0";
  card.netdev = "ib0";
  machine.nics = {card};
  const auto complaint = [&machine](const std::string& first, const std::string& second) {
    const std::string all(
        corrected(machine, "[[nic]]\nname = " + first + "\n[[nic]]\nname = " + second + "\n")
            .text());
    return all.substr(std::min(all.size(), all.find(':') + 1));
  };
  const std::string device = "\"mlx5_0\"", interface = "\"ib0\"";
  const std::string rate = "\nmbit_per_s = 100_000";
  EXPECT_EQ(complaint(device + rate, interface + rate),
            "4: a second [[nic]] of mlx5_0: the first is in line 1");
  EXPECT_EQ(complaint(interface, device), "3: a second [[nic]] of ib0: the first is in line 1");
  EXPECT_EQ(complaint(device + "\nabsent = true", interface),
            "4: a second [[nic]] of mlx5_0: the first is in line 1");
  EXPECT_EQ(complaint(device + "\nrdma = \"mlx5_9\"", "\"mlx5_9\""),
            "4: a second [[nic]] of mlx5_0: the first is in line 1");
  EXPECT_EQ(complaint(device + "\nrdma = \"mlx5_9\"", device),
            "4: a second [[nic]] of mlx5_0: the first is in line 1");
  EXPECT_EQ(machine.nics, std::vector<Nic>{card});
}

TEST(Corrections, AnEmptyListOfBridgesSaysThatThereAreNone) {
  Result<Machine> read = read_machine(eight_gpus());
  ASSERT_TRUE(read.ok());
  Machine machine = std::move(read).value();
  ASSERT_FALSE(nic(machine, "mlx5_0").place.bridges.empty());
  ASSERT_TRUE(corrected(machine, "[[nic]]\nname = \"mlx5_0\"\nbridges = []\n").ok());
  EXPECT_TRUE(nic(machine, "mlx5_0").place.bridges.empty());
  EXPECT_FALSE(nic(machine, "mlx5_1").place.bridges.empty()) << "which nobody spoke of";
}

TEST(Corrections, PlacesMustBeOnes) {
  Result<Machine> read = read_machine("synthetic:pack:2 [numa(memory=1GB)] core:2 pu:1");
  ASSERT_TRUE(read.ok());
  Machine machine = std::move(read).value();
  const auto complaint = [&machine](const std::string& line) {
    const TextFile file("[[nic]]\nname = \"a\"\n" + line + "\n");
    const std::string all(correct_machine(machine, file.path()).text());
    return all.substr(std::min(all.size(), file.path().size() + 1));
  };
  EXPECT_EQ(complaint("numa_node = 9"), "3: numa_node: there is no NUMA node 9, but 0, 1");
  EXPECT_EQ(complaint("package = 2"), "3: package: there are 2 packages, from 0 on");
  for (const std::string pci : {"zz:zz", "0000:3b:00", "0000:3b:00.8", "0000:3b:20.0", "3b:00.0",
                                "0000:3b:00.0 ", "0000:3g:00.0", ""}) {
    EXPECT_EQ(complaint("pci = \"" + pci + "\""),
              "3: pci: '" + pci + "' is no PCI address (\"0000:3b:00.0\")");
  }
  EXPECT_EQ(complaint("host_bridge = \"bridge\""),
            "3: host_bridge: 'bridge' is no domain and bus (\"0000:3a\")");
  EXPECT_EQ(complaint("bridges = [\"0000:3a:00.0\", \"up\"]"),
            "3: bridges: 'up' is no PCI address (\"0000:3b:00.0\")");
  EXPECT_EQ(complaint("bridges = [\"0000:3a:00.0\", \"0000:3A:00.0\"]"),
            "3: bridges: 0000:3a:00.0 is there twice");
  EXPECT_EQ(complaint("pci = \"0000:3b:00.0\"\nbridges = [\"0000:3b:00.0\"]"),
            "4: bridges: 0000:3b:00.0 is the device itself");
  EXPECT_TRUE(machine.nics.empty());
}

// nvidia-smi writes eight digits and capitals.
TEST(Corrections, AddressesAreWrittenAsTheKernelDoes) {
  Machine machine;
  ASSERT_TRUE(corrected(machine,
                        "[[gpu]]\nindex = 0\npci = \"00000000:3B:00.0\"\n"
                        "host_bridge = \"0000:3A\"\nbridges = [\"10000:3A:01.0\"]\n")
                  .ok());
  EXPECT_EQ(machine.gpus[0].place.address, "0000:3b:00.0");
  EXPECT_EQ(machine.gpus[0].place.host_bridge, "0000:3a");
  EXPECT_EQ(machine.gpus[0].place.bridges[0].address, "10000:3a:01.0");
}

TEST(Corrections, LinksAreBetweenTwoGpusThatThereAre) {
  Machine machine;
  const auto complaint = [&machine](const std::string& link) {
    const TextFile file("[[gpu]]\nindex = 5\n[[gpu_link]]\n" + link);
    const std::string all(correct_machine(machine, file.path()).text());
    return all.substr(std::min(all.size(), file.path().size() + 1));
  };
  EXPECT_EQ(complaint("gpu = 5\npeer = 5\n"), "5: peer: a GPU is no peer of its own");
  EXPECT_EQ(complaint("gpu = 4\npeer = 5\n"), "4: gpu: a [[gpu_link]] needs the index of a GPU");
  EXPECT_EQ(complaint("gpu = 5\npeer = 4\n"),
            "5: peer: there is no GPU of that index; leave it out for a switch");
}

TEST(Corrections, NumbersHaveBounds) {
  Machine machine;
  const auto is_refused = [&machine](const std::string& line) {
    const Status status = corrected(machine, "[[nic]]\nname = \"a\"\n" + line + "\n");
    return status.text().find(":3: ") != std::string::npos;
  };
  for (const std::string value : {"0", "-1", "1e9", "nan", "9999999999", "true", "\"1\"", "[1]"})
    EXPECT_TRUE(is_refused("mbit_per_s = " + value)) << value;
  for (const std::string value : {"-1", "nan", "inf", "-inf", "1e300", "\"1\"", "[1]"})
    EXPECT_TRUE(is_refused("pci_gbyte_per_s = " + value)) << value;
  for (const std::string value : {"-1", "65536", "1.5"})
    EXPECT_TRUE(is_refused("numa_node = " + value)) << value;
  EXPECT_TRUE(is_refused("bridges = \"0000:15:01.0\""));
  EXPECT_TRUE(is_refused("bridges_gbyte_per_s = [63.0]"));
}

TEST(Corrections, MistakesAreNamedAndChangeNothing) {
  Machine machine;
  const TextFile misspelled("[[nic]]\nname = \"a\"\nmbits_per_s = 5\n");
  EXPECT_TRUE(correct_machine(machine, misspelled.path())
                  .text()
                  .starts_with(misspelled.path() + ":3: unknown key 'mbits_per_s'; known are: "));
  EXPECT_TRUE(machine.nics.empty());
  const auto text = [&machine](const std::string& toml) {
    return std::string(corrected(machine, toml).text());
  };
  EXPECT_NE(text("[[nic]]\nmbit_per_s = 5\n").find(":1: a [[nic]] needs a name"),
            std::string::npos);
  EXPECT_NE(text("[[nic]]\nname = \"a\"\nmbit_per_s = -5\n").find(":3: mbit_per_s: -5 is not in"),
            std::string::npos);
  EXPECT_NE(text("[[nic]]\nname = \"a\"\nmbit_per_s = \"fast\"\n").find("a whole number"),
            std::string::npos);
  EXPECT_NE(text("[[gpu_link]]\ngpu = 3\n").find("needs the index of a GPU"), std::string::npos);
  EXPECT_NE(text("[[nic]\n").find(":1: "), std::string::npos);
  EXPECT_NE(text("[[switch]]\n").find("unknown key 'switch'"), std::string::npos);
  EXPECT_NE(correct_machine(machine, "/nowhere.toml").text().find("/nowhere.toml"),
            std::string::npos);
}

}  // namespace
}  // namespace weft
