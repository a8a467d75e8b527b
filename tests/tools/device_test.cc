// Devices from a folder laid out like /sys, so that machines we do not have can be described;
// hardware from the machine itself.
#include "verbs/device/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "topology/hardware/hardware.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class Devices : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(sys_); }
  void TearDown() override { fs::remove_all(sys_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((sys_ / path).parent_path());
    std::ofstream(sys_ / path) << text << "\n";
  }

  void add_port(const std::string& device, const std::string& state, const std::string& gid) const {
    const std::string port = "class/infiniband/" + device + "/ports/1/";
    write(port + "state", state);
    write(port + "rate", "100 Gb/sec (4X EDR)");
    write(port + "link_layer", "Ethernet");
    write(port + "gids/0", gid);
  }

  const fs::path sys_ = fs::path(testing::TempDir()) / "weft-sys";
};

TEST_F(Devices, NoneIsNoError) {
  EXPECT_TRUE(discover_interfaces(sys_).empty());
  EXPECT_TRUE(discover_rdma_ports(sys_).empty());
}

TEST_F(Devices, InterfacesSayWhyTheyAreNotUsable) {
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
  const std::vector<NetworkInterface> found = discover_interfaces(sys_);
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

TEST_F(Devices, PortsNeedToBeActiveAndToHaveAnAddress) {
  add_port("mlx5_0", "4: ACTIVE", "fe80:0000:0000:0000:0000:0000:0000:0001");
  add_port("mlx5_1", "1: DOWN", "fe80:0000:0000:0000:0000:0000:0000:0002");
  add_port("mlx5_2", "4: ACTIVE", "0000:0000:0000:0000:0000:0000:0000:0000");
  const std::vector<RdmaPort> found = discover_rdma_ports(sys_);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_TRUE(found[0].usable);
  EXPECT_EQ(found[0].gids, 1);
  EXPECT_FALSE(found[1].usable);
  EXPECT_NE(found[1].reason.find("DOWN"), std::string::npos);
  EXPECT_FALSE(found[2].usable);
  EXPECT_NE(found[2].reason.find("GID"), std::string::npos);
}

TEST(Hardware, ThisMachineHasCoresAndMemory) {
  const Result<Machine> machine = discover_machine();
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_GE(machine->threads, 1);
  EXPECT_GT(machine->memory_bytes, std::uint64_t{1} << 20);
  EXPECT_FALSE(machine->nodes.empty());
}

}  // namespace
}  // namespace weft
