// Machines as the kernel lists them in /sys.
#include "tests/tools/fake_sys.h"
#include "topology/hardware/sources.h"

namespace weft {
namespace {

using namespace hardware;

// Two packages, each a node with two cores of two hardware threads: 0 and 4, 1 and 5, and so on.
class TwoPackages : public FakeSys {
 protected:
  void SetUp() override {
    FakeSys::SetUp();
    write("devices/system/cpu/online", "0-7");
    for (int number = 0; number < 8; ++number) {
      const int core = number % 4;
      const std::string topology = "devices/system/cpu/cpu" + std::to_string(number) + "/topology/";
      write(topology + "physical_package_id", core < 2 ? "0" : "36");
      write(topology + "thread_siblings_list",
            std::to_string(core) + "," + std::to_string(core + 4));
    }
    write("devices/system/node/online", "0-1");
    write("devices/system/node/node0/cpulist", "0-1,4-5");
    write("devices/system/node/node1/cpulist", "2-3,6-7");
    write("devices/system/node/node0/meminfo", "Node 0 MemTotal:  1024 kB\nNode 0 MemFree: 8 kB");
    write("devices/system/node/node1/meminfo", "Node 1 MemTotal:  2048 kB");
  }
  void add_device(const std::string& way, const std::string& kind, const std::string& node) const {
    const std::string folder = "devices/" + way;
    write(folder + "/class", kind);
    write(folder + "/vendor", "0x10de");
    write(folder + "/numa_node", node);
    write(folder + "/current_link_speed", "16.0 GT/s PCIe");
    write(folder + "/current_link_width", "16");
    link("bus/pci/devices/" + way.substr(way.rfind('/') + 1), folder);
  }
  [[nodiscard]] Machine machine() const { return sys_machine(sys_); }
  [[nodiscard]] PciPlace place(const std::string& address) const {
    return sys_place(machine(), address, sys_);
  }
};

TEST_F(TwoPackages, HaveTheirCoresAndMemory) {
  const Machine found = machine();
  EXPECT_EQ(found.packages, 2);
  EXPECT_EQ(found.cores, 4);
  EXPECT_EQ(found.threads, 8);
  EXPECT_EQ(found.memory_bytes, std::uint64_t{3} << 20);
  EXPECT_EQ(found.nodes, (std::vector<NumaNode>{{0, std::uint64_t{1} << 20, 2, 0, {0, 1, 4, 5}},
                                                {1, std::uint64_t{2} << 20, 2, 1, {2, 3, 6, 7}}}));
}

TEST_F(TwoPackages, WhatIsOfflineDoesNotCount) {
  write("devices/system/cpu/online", "0-2,5");
  const Machine found = machine();
  EXPECT_EQ(found.cores, 3);
  EXPECT_EQ(found.threads, 4);
  EXPECT_EQ(found.nodes[1].processors, (std::vector<int>{2}));
}

TEST_F(TwoPackages, AContainerMayHaveAPart) {
  write("fs/cgroup/cpuset.cpus.effective", "1,5-6");
  const Machine found = machine();
  EXPECT_EQ(found.threads, 3);
  EXPECT_EQ(found.nodes[0].processors, (std::vector<int>{1, 5}));
  EXPECT_EQ(found.nodes[0].cores, 1);
}

TEST_F(TwoPackages, WithoutNodesAreOne) {
  std::filesystem::remove_all(sys_ / "devices/system/node");
  const Machine found = machine();
  ASSERT_EQ(found.nodes.size(), 1U);
  EXPECT_EQ(found.nodes[0].cores, 4);
  EXPECT_EQ(found.nodes[0].package, -1);  // it has both
}

TEST_F(TwoPackages, AnEmptySysLeavesWhatTheProcessMayUse) {
  std::filesystem::remove_all(sys_);
  const Machine found = machine();
  EXPECT_GE(found.threads, 1);
  EXPECT_EQ(found.cores, 0);
  ASSERT_EQ(found.nodes.size(), 1U);
  EXPECT_EQ(std::ssize(found.nodes[0].processors), found.threads);
}

TEST_F(TwoPackages, ListsAreBounded) {
  write("devices/system/cpu/online", "0-1,7-99999999999,3");
  EXPECT_EQ(machine().threads, 2);
  write("devices/system/cpu/online", "0-2000000000");
  EXPECT_EQ(machine().threads, 8192);
}

TEST_F(TwoPackages, DevicesAreWhereTheirNamesLead) {
  const std::string port = "pci0000:3a/0000:3a:00.0", upper = port + "/0000:3b:00.0";
  add_device(port, "0x060400", "1");
  add_device(upper, "0x060400", "1");
  add_device(upper + "/0000:3c:00.0", "0x060400", "1");
  add_device(upper + "/0000:3c:01.0", "0x060400", "1");
  add_device(upper + "/0000:3c:00.0/0000:3d:00.0", "0x030200", "1");
  add_device(upper + "/0000:3c:01.0/0000:3e:00.0", "0x020000", "1");
  const Machine found = machine();
  ASSERT_EQ(found.gpus.size(), 1U);
  EXPECT_EQ(found.gpus[0].place.address, "0000:3d:00.0");
  const PciPlace gpu = place("0000:3d:00.0"), card = place("0000:3e:00.0");
  EXPECT_EQ(gpu.host_bridge, "0000:3a");
  ASSERT_EQ(gpu.bridges.size(), 3U);
  EXPECT_EQ(gpu.bridges[0].address, "0000:3a:00.0");
  EXPECT_NEAR(gpu.gbyte_per_s, 31.5, 0.1);
  EXPECT_NEAR(gpu.bridges[0].gbyte_per_s, 31.5, 0.1);
  EXPECT_EQ(gpu.numa_node, 1);
  EXPECT_EQ(gpu.package, 1);
  EXPECT_EQ(distance(gpu, card).nearness, Nearness::one_switch);
}

TEST_F(TwoPackages, DevicesThatTheKernelDoesNotKnowHaveNoPlace) {
  const PciPlace nowhere = place("0000:99:00.0");
  EXPECT_EQ(nowhere.address, "0000:99:00.0");
  EXPECT_TRUE(nowhere.host_bridge.empty());
  EXPECT_EQ(nowhere.numa_node, -1);
}

}  // namespace
}  // namespace weft
