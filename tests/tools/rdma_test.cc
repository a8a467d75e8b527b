// RDMA ports of machines that we do not have: what is read, and what is said of it.
#include <gtest/gtest.h>

#include "tests/tools/fake_sys.h"

namespace weft {
namespace {

using Ports = FakeSys;

TEST_F(Ports, NoneIsNoErrorAndIsExplained) {
  EXPECT_TRUE(ports().empty());
  EXPECT_TRUE(says(why_no_rdma({sys_, sys_ / "dev", {}}), "rdma link add"));
  write("dev/infiniband/uverbs0", "");
  EXPECT_TRUE(says(why_no_rdma({sys_, sys_ / "dev", {}}), "network namespace"));
}

TEST_F(Ports, OfRoceHaveAnAddressPerVersion) {
  add_netdev("eth0");
  add_port("mlx5_0", "4: ACTIVE");
  add_gid("mlx5_0", 0, kLinkLocal, "IB/RoCE v1", "eth0");
  add_gid("mlx5_0", 1, kLinkLocal, "RoCE v2", "eth0");
  add_gid("mlx5_0", 2, kTenOne, "IB/RoCE v1", "eth0");
  add_gid("mlx5_0", 10, kTenOne, "RoCE v2", "eth0");
  add_gid("mlx5_0", 3, kUnset, "", "");
  add_address("eth0", "10.0.0.1/24");
  add_address("eth0", "fe80::202:c9ff:fe00:1/64");
  const std::vector<RdmaPort> found = ports();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].usable) << found[0].reason;
  EXPECT_EQ(found[0].reason, "is active");
  EXPECT_EQ(found[0].netdev, "eth0");
  EXPECT_EQ(found[0].mtu, 9000);
  EXPECT_EQ(found[0].mbit_per_s, 100'000);
  EXPECT_EQ(found[0].phys_state, "LinkUp");
  EXPECT_EQ(found[0].lid, -1);
  ASSERT_EQ(found[0].gids.size(), 4U);
  for (const RdmaGid& gid : found[0].gids) EXPECT_TRUE(gid.usable) << gid.index << gid.reason;
  EXPECT_EQ(found[0].gids[0].kind, GidKind::roce_v1);
  EXPECT_EQ(found[0].gids[0].prefix_bits, 64);
  EXPECT_TRUE(found[0].gids[1].link_local);
  EXPECT_TRUE(says(found[0].gids[1].reason, "one Ethernet segment"));
  const RdmaGid& best = found[0].gids[3];
  EXPECT_EQ(best.index, 10);
  EXPECT_EQ(best.kind, GidKind::roce_v2);
  EXPECT_EQ(best.ip, "10.0.0.1");
  EXPECT_EQ(best.text, kTenOne);
  EXPECT_EQ(best.prefix_bits, 24);
  EXPECT_FALSE(best.link_local);
  EXPECT_EQ(network_of(found[0]), "10.0.0.0/24") << "link-local ones are everywhere";
}

TEST_F(Ports, AreOnTheSameNetworkInWhateverOrderTheirAddressesWereGiven) {
  const std::string six = "fd00:0000:0000:0001:0000:0000:0000:0001";
  add_netdev("eth0");
  add_address("eth0", "10.0.0.1/24");
  add_address("eth0", "fd00:0:0:1::1/64");
  for (const auto& [device, first, second] :
       {std::tuple("mlx5_0", kTenOne, six), std::tuple("mlx5_1", six, kTenOne)}) {
    add_port(device, "4: ACTIVE");
    add_gid(device, 0, first, "RoCE v2", "eth0");
    add_gid(device, 1, second, "RoCE v2", "eth0");
  }
  const std::vector<RdmaPort> found = ports();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(network_of(found[0]), "10.0.0.0/24");
  EXPECT_EQ(network_of(found[1]), "10.0.0.0/24");
}

TEST_F(Ports, WhoseDriverCannotBeAskedAreNotUsableAndSayWhy) {
  add_netdev("eth0");
  add_port("mlx5_0", "4: ACTIVE");
  add_gid("mlx5_0", 0, kTenOne, "RoCE v2", "eth0");
  add_address("eth0", "10.0.0.1/24");
  RdmaSources from{sys_, sys_ / "dev", addresses_};
  EXPECT_TRUE(discover_rdma_ports(from).at(0).usable);
  from.driver = [](const std::string&, int) {
    return RdmaAnswers{{}, 0, "libibverbs.so.1 cannot be loaded"};
  };
  const RdmaPort port = discover_rdma_ports(from).at(0);
  EXPECT_FALSE(port.usable);
  EXPECT_EQ(port.reason, "libibverbs.so.1 cannot be loaded");
  EXPECT_EQ(port.gids.size(), 1U) << "what sysfs tells is there";
}

TEST_F(Ports, WithLinkLocalAddressesOnlySaySo) {
  add_netdev("eth0");
  add_port("mlx5_0", "4: ACTIVE");
  add_gid("mlx5_0", 0, kLinkLocal, "RoCE v2", "eth0");
  ASSERT_EQ(ports().size(), 1U);
  EXPECT_TRUE(ports()[0].usable);
  EXPECT_TRUE(says(ports()[0].reason, "link-local addresses only"));
  EXPECT_EQ(network_of(ports()[0]), "");
}

TEST_F(Ports, NeedAnAddressThatTheirInterfaceHas) {
  add_netdev("eth0");
  add_port("rxe0", "4: ACTIVE");
  add_gid("rxe0", 0, kLinkLocal, "RoCE v2", "eth0");
  add_gid("rxe0", 1, kTenOne, "RoCE v2", "eth0");
  add_address("eth0", "192.168.0.1/24");
  const RdmaPort port = ports().at(0);
  ASSERT_EQ(port.gids.size(), 2U);
  EXPECT_TRUE(says(port.gids[0].reason, "IPv6 is off"));
  EXPECT_TRUE(says(port.gids[1].reason, "no address of eth0"));
  EXPECT_FALSE(port.usable);
  EXPECT_TRUE(says(port.reason, "none of its addresses")) << port.reason;
}

TEST_F(Ports, ToWhichTheirInterfaceGaveNoAddressSaySo) {
  add_netdev("eth0");
  add_port("rxe0", "4: ACTIVE");
  add_gid("rxe0", 0, kLinkLocal, "RoCE v2", "eth0");
  add_address("lo", "127.0.0.1/8");
  EXPECT_FALSE(ports().at(0).usable);
  EXPECT_TRUE(says(ports().at(0).reason, "give eth0 an IP address")) << ports().at(0).reason;
}

TEST_F(Ports, NeedTheirNetworkInterface) {
  add_netdev("eth0", "down");
  add_port("mlx5_0", "4: ACTIVE");
  add_gid("mlx5_0", 0, kTenOne, "RoCE v2", "eth0");
  add_port("mlx5_1", "4: ACTIVE");
  add_gid("mlx5_1", 0, kTenOne, "RoCE v2", "eth7");
  const std::vector<RdmaPort> found = ports();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_FALSE(found[0].gids.at(0).usable);
  EXPECT_TRUE(says(found[0].gids.at(0).reason, "ip link set eth0 up"));
  EXPECT_TRUE(says(found[0].reason, "ip link set eth0 up"));
  EXPECT_TRUE(says(found[1].gids.at(0).reason, "network namespace"));
}

// The driver may say that an interface without a carrier is down; whoever set it down is told nothing
// of its carrier.
TEST_F(Ports, ThatLackOnlyTheirCarrierAreToldApart) {
  const auto add = [this](const std::string& name, const std::string& operstate,
                          const std::string& carrier) {
    write("class/net/eth" + name + "/operstate", operstate);
    if (!carrier.empty()) write("class/net/eth" + name + "/carrier", carrier);
    add_port("mlx5_" + name, "1: DOWN");
    add_gid("mlx5_" + name, 0, kTenOne, "RoCE v2", "eth" + name);
  };
  add("0", "down", "0");
  add("1", "lowerlayerdown", "0");
  add("2", "down", "");
  add("3", "down", "0");
  for (const char* with_address : {"eth0", "eth1", "eth2"})
    add_address(with_address, "10.0.0.1/24");
  const std::vector<RdmaPort> found = ports();
  ASSERT_EQ(found.size(), 4U);
  for (const RdmaPort& port : found) EXPECT_FALSE(port.usable) << port.device;
  for (const std::size_t out : {0U, 1U}) {
    EXPECT_TRUE(found[out].lacks_carrier) << found[out].reason;
    EXPECT_TRUE(says(found[out].reason, "no carrier")) << found[out].reason;
    EXPECT_EQ(network_of(found[out]), "10.0.0.0/24");
  }
  EXPECT_FALSE(found[2].lacks_carrier) << found[2].reason;
  EXPECT_TRUE(says(found[2].reason, "ip link set eth2 up")) << found[2].reason;
  EXPECT_FALSE(found[3].lacks_carrier) << "it has no address: " << found[3].reason;
}

TEST_F(Ports, ThatAreDownOrWithoutAddressSayWhatToDo) {
  add_port("mlx5_0", "1: DOWN");
  add_gid("mlx5_0", 0, kTenOne, "RoCE v2", "");
  add_port("mlx5_1", "4: ACTIVE");
  add_gid("mlx5_1", 0, kUnset, "", "");
  const std::vector<RdmaPort> found = ports();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_FALSE(found[0].usable);
  EXPECT_TRUE(says(found[0].reason, "state is DOWN: cable")) << found[0].reason;
  EXPECT_FALSE(found[1].usable);
  EXPECT_TRUE(found[1].gids.empty());
  EXPECT_TRUE(says(found[1].reason, "give its network interface one"));
}

TEST_F(Ports, WithoutGidAttributesHaveNoUsableRoceAddress) {
  add_port("old_0", "4: ACTIVE");
  add_gid("old_0", 0, kTenOne, "", "");
  const RdmaPort port = ports().at(0);
  EXPECT_FALSE(port.usable);
  EXPECT_TRUE(says(port.reason, "gid_attrs/types")) << port.reason;
}

TEST_F(Ports, OfInfiniBandHaveALid) {
  add_port("mlx5_0", "4: ACTIVE", "InfiniBand");
  add_gid("mlx5_0", 0, kLinkLocal, "IB/RoCE v1", "");
  write(port_folder("mlx5_0", 1) + "lid", "0x1f");
  write(port_folder("mlx5_0", 1) + "sm_lid", "0x1");
  add_port("mlx5_1", "2: INIT", "InfiniBand");
  const std::vector<RdmaPort> found = ports();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[0].usable);
  EXPECT_EQ(found[0].reason, "is active");
  EXPECT_EQ(found[0].lid, 31);
  EXPECT_EQ(found[0].sm_lid, 1);
  EXPECT_EQ(found[0].gids.at(0).kind, GidKind::infiniband);
  EXPECT_EQ(network_of(found[0]), "fe80::/64") << "the subnet prefix";
  EXPECT_TRUE(says(found[1].reason, "subnet manager"));
}

TEST_F(Ports, OfOneDeviceFindTheirOwnNetworkInterface) {
  add_netdev("eth0");
  add_netdev("eth1");
  write("class/infiniband/mlx4_0/device/net/eth0/dev_port", "0");
  write("class/infiniband/mlx4_0/device/net/eth1/dev_port", "1");
  add_port("mlx4_0", "4: ACTIVE", "Ethernet", 1);
  add_port("mlx4_0", "4: ACTIVE", "Ethernet", 2);
  const std::vector<RdmaPort> found = ports();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].port, 1);
  EXPECT_EQ(found[0].netdev, "eth0");
  EXPECT_EQ(found[1].port, 2);
  EXPECT_EQ(found[1].netdev, "eth1");
}

TEST_F(Ports, TellTheCardTheyAreOn) {
  add_port("mlx5_2", "4: ACTIVE");
  const std::string card = "devices/pci0000:3a/0000:3b:00.2";
  link("class/infiniband/mlx5_2/device", card);
  link(card + "/driver", "bus/pci/drivers/mlx5_core");
  link(card + "/physfn", "devices/pci0000:3a/0000:3b:00.0");
  write(card + "/numa_node", "1");
  write("class/infiniband/mlx5_2/node_guid", "9803:9b03:00ab:cdef");
  add_netdev("eth0");
  write("class/net/eth0/master/bonding/mode", "802.3ad 4");
  write(card + "/net/eth0/dev_port", "0");
  const RdmaPort port = ports().at(0);
  EXPECT_EQ(port.pci, "0000:3b:00.2");
  EXPECT_EQ(port.driver, "mlx5_core");
  EXPECT_TRUE(port.is_virtual_function);
  EXPECT_TRUE(port.is_bonded);
  EXPECT_EQ(port.numa_node, 1);
  EXPECT_EQ(port.node_guid, "9803:9b03:00ab:cdef");
}

// An entry that is not set, or whose interface the kernel does not tell, is passed over.
TEST_F(Ports, AreListedWithoutTheirAddresses) {
  add_netdev("eth0");
  add_netdev("eth1");
  add_port("mlx5_2", "4: ACTIVE");
  add_gid("mlx5_2", 0, kUnset, "", "");
  write("class/infiniband/mlx5_2/ports/1/gid_attrs/ndevs/0", "");
  add_gid("mlx5_2", 1, kTenOne, "RoCE v2", "eth1");
  add_port("mlx5_10", "1: DOWN");
  write("class/infiniband/mlx5_10/device/net/eth0/dev_port", "0");
  add_port("mlx4_0", "4: ACTIVE", "InfiniBand", 2);
  write("class/infiniband/mlx4_0/ports/2/lid", "0x11");
  std::vector<RdmaPort> wanted = ports();
  for (RdmaPort& port : wanted) {
    port.gids.clear();
    port.usable = false;
    port.reason.clear();
  }
  ASSERT_EQ(wanted.size(), 3U);
  EXPECT_EQ(wanted[1].netdev, "eth1");
  EXPECT_EQ(wanted[2].netdev, "eth0") << "mlx5_10 after mlx5_2";
  EXPECT_EQ(list_rdma_ports(sys_), wanted);
}

TEST_F(Ports, NeedTheirDeviceFile) {
  for (const char* device : {"mlx5_0", "mlx5_1"}) {
    add_port(device, "4: ACTIVE", "InfiniBand");
    add_gid(device, 0, kLinkLocal, "IB/RoCE v1", "");
  }
  std::filesystem::remove(sys_ / "dev/infiniband/uverbs_mlx5_0");
  std::filesystem::remove_all(sys_ / "class/infiniband_verbs/uverbs_mlx5_1");
  const std::vector<RdmaPort> found = ports();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_FALSE(found[0].usable);
  EXPECT_TRUE(says(found[0].reason, "--device /dev/infiniband")) << found[0].reason;
  EXPECT_TRUE(says(found[1].reason, "modprobe ib_uverbs")) << found[1].reason;
}

TEST_F(Ports, OfIwarpAreNoneOfOurs) {
  add_port("siw0", "4: ACTIVE");
  add_gid("siw0", 0, kTenOne, "IB/RoCE v1", "");
  write("class/infiniband/siw0/node_type", "4: RNIC");
  EXPECT_FALSE(ports().at(0).usable);
  EXPECT_TRUE(says(ports().at(0).reason, "RNIC"));
}

}  // namespace
}  // namespace weft
