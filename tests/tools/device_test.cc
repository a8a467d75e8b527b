// Network interfaces from a folder laid out like /sys.
#include "verbs/device/device.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tools/fake_sys.h"

namespace weft {
namespace {

using Interfaces = FakeSys;

TEST_F(Interfaces, NoneIsNoError) {
  EXPECT_TRUE(discover_interfaces(sys_, {}).empty());
}

TEST_F(Interfaces, SayWhyTheyAreNotUsable) {
  const auto add = [this](const std::string& name, const char* type, const char* state,
                          const char* carrier) {
    write("class/net/" + name + "/type", type);
    write("class/net/" + name + "/operstate", state);
    write("class/net/" + name + "/carrier", carrier);
  };
  add("eth0", "1", "up", "1");
  write("class/net/eth0/speed", "25000");
  write("class/net/eth0/device/numa_node", "1");
  add("eth1", "1", "down", "0");
  add("eth2", "1", "unknown", "0");
  add("lo", "772", "unknown", "1");
  const std::vector<NetworkInterface> found = discover_interfaces(sys_, {});
  ASSERT_EQ(found.size(), 4U);
  EXPECT_TRUE(found[0].usable);
  EXPECT_EQ(found[0].kind, "ethernet");
  EXPECT_EQ(found[0].mbit_per_s, 25'000);
  EXPECT_EQ(found[0].numa_node, 1);
  EXPECT_FALSE(found[1].usable);
  EXPECT_NE(found[1].reason.find("ip link set eth1 up"), std::string::npos);
  EXPECT_NE(found[2].reason.find("no carrier"), std::string::npos);
  EXPECT_EQ(found[3].kind, "loopback");
  EXPECT_FALSE(found[3].usable);
}

InterfaceAddress address(const std::string& netdev, const std::string& text) {
  const GidAddress parsed = parse_gid(text, GidKind::roce_v2).value();
  return {netdev, parsed.bytes, parsed.prefix_bits};
}

// TCP takes IPv4 where both are, and no link-local address.
TEST_F(Interfaces, AreUsableByAnAddressOfEitherKind) {
  for (const char* name : {"eth0", "eth1", "eth2", "eth3"}) add_netdev(name);
  const auto found =
      discover_interfaces(sys_, {address("eth0", "fe80::1/64"), address("eth0", "fd09::1/64"),
                                 address("eth1", "fd09::2/64"), address("eth1", "10.0.0.2/24"),
                                 address("eth2", "fe80::2/64")});
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0].ip, "fd09::1/64");
  EXPECT_EQ(found[0].network, "fd09::/64");
  EXPECT_TRUE(found[0].usable) << found[0].reason;
  EXPECT_EQ(found[1].ip, "10.0.0.2/24");
  EXPECT_EQ(found[1].network, "10.0.0.0/24");
  for (std::size_t i : {2U, 3U}) {
    EXPECT_EQ(found[i].ip, "");
    EXPECT_FALSE(found[i].usable);
    EXPECT_TRUE(says(found[i].reason, "ip addr add")) << found[i].reason;
  }
}

TEST_F(Interfaces, TellWhereOnPciTheyAreThroughWhateverLiesBetween) {
  add_netdev("eth0");
  link("class/net/eth0/device", "devices/pci0000:00/0000:00:03.0/virtio2");
  add_netdev("veth0");
  const std::vector<NetworkInterface> found = discover_interfaces(sys_, {});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].pci, "0000:00:03.0");
  EXPECT_EQ(found[0].state, "up");
  EXPECT_EQ(found[1].pci, "");
}

TEST_F(Interfaces, VirtualOnesAreToldApartAndLeadSomewhereOrSayWhyNot) {
  const auto add = [this](const std::string& name, const std::string& flags) {
    add_netdev(name);
    write("class/net/" + name + "/type", "1");
    write("class/net/" + name + "/flags", flags);
    write("class/net/" + name + "/ifindex", "5");
    write("class/net/" + name + "/iflink", "5");
  };
  add("bond0", "0x1443");
  write("class/net/bond0/bonding/mode", "802.3ad 4");
  add("ifb0", "0xc3");
  add("tun0", "0x1091");
  write("class/net/tun0/tun_flags", "0x1001");
  add("veth0", "0x1003");
  write("class/net/veth0/iflink", "9");
  add("veth1", "0x1003");
  write("class/net/veth1/iflink", "11");
  link("class/net/veth1/master", "devices/virtual/net/docker0");
  write("devices/virtual/net/docker0/bridge/bridge_id", "8000");
  add("vlan7", "0x1003");
  write("class/net/vlan7/uevent", "DEVTYPE=vlan\nINTERFACE=vlan7");
  const std::vector<NetworkInterface> found = discover_interfaces(sys_, {});
  ASSERT_EQ(found.size(), 6U);
  const std::vector<std::string> kinds{"bond", "dummy", "tun", "veth", "veth", "vlan"};
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].kind, kinds[i]) << found[i].name;
    EXPECT_FALSE(found[i].is_card()) << found[i].name;
    EXPECT_EQ(found[i].usable, found[i].name != "ifb0" && found[i].name != "veth1");
  }
  EXPECT_TRUE(says(found[1].reason, "nothing is behind it"));
  EXPECT_EQ(found[4].reason, "is a port of the bridge docker0");
}

TEST_F(Interfaces, BondsAndVirtualFunctionsAreToldApart) {
  for (const std::string name : {"eth0", "eth1"}) {
    add_netdev(name);
    write("class/net/" + name + "/type", "1");
  }
  link("class/net/eth0/device", "devices/pci0000:00/0000:00:03.0");
  link("class/net/eth0/master", "devices/virtual/net/bond0");
  write("devices/virtual/net/bond0/bonding/mode", "802.3ad 4");
  link("class/net/eth1/device", "devices/pci0000:00/0000:00:03.1");
  link("devices/pci0000:00/0000:00:03.1/physfn", "devices/pci0000:00/0000:00:03.0");
  write("class/net/bonding_masters", "bond0");  // a list, no interface
  const std::vector<NetworkInterface> found = discover_interfaces(sys_, {});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].bond, "bond0");
  EXPECT_FALSE(found[0].is_virtual_function);
  EXPECT_EQ(found[1].bond, "");
  EXPECT_TRUE(found[1].is_virtual_function);
  EXPECT_EQ(found[1].physical_function, "0000:00:03.0");
  EXPECT_TRUE(found[1].is_card());
}

TEST(Names, AreInTheOrderOfTheirNumbers) {
  std::vector<std::string> names{"mlx5_10", "mlx5_2", "eth", "mlx5_2:2", "eth010", "eth10", "eth1"};
  std::ranges::sort(names, is_listed_before);
  EXPECT_EQ(names, (std::vector<std::string>{"eth", "eth1", "eth010", "eth10", "mlx5_2", "mlx5_2:2",
                                             "mlx5_10"}));
  EXPECT_FALSE(is_listed_before("a1", "a1"));
}

TEST(Addresses, LoopbackHasItsOwn) {
  const std::vector<InterfaceAddress> found = interface_addresses();
  const Result<GidAddress> loopback = parse_gid("127.0.0.1/8", GidKind::roce_v2);
  ASSERT_TRUE(loopback.ok());
  EXPECT_TRUE(std::ranges::any_of(found, [&loopback](const InterfaceAddress& each) {
    return each.netdev == "lo" && each.bytes == loopback->bytes && each.prefix_bits == 8;
  }));
}

}  // namespace
}  // namespace weft
