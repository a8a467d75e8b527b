// What is said of a /sys that is there in part.
#include <array>

#include "tests/tools/fake_sys.h"
#include "topology/hardware/sources.h"

namespace weft {
namespace {

using namespace hardware;

class PartOfSys : public FakeSys {
 protected:
  void SetUp() override {
    FakeSys::SetUp();
    write("devices/system/cpu/cpu0/topology/core_siblings", "1");
    write("devices/system/node/node0/cpumap", "1");
    write("bus/pci/devices/0000:00:01.0/class", "0x020000");
    add_netdev("lo");
  }
  [[nodiscard]] std::vector<std::string> unreadable() const { return unreadable_in(sys_); }
  // The one phrase, without the folder's name.
  [[nodiscard]] std::string phrase() const {
    const std::vector<std::string> all = unreadable();
    EXPECT_EQ(all.size(), 1U);
    std::string text = all.empty() ? "" : all[0];
    if (const std::size_t at = text.find(sys_.string()); at != std::string::npos)
      text.replace(at, sys_.string().size(), "SYS");
    return text;
  }
  void remove(const std::string& path) const { std::filesystem::remove_all(sys_ / path); }
};

TEST_F(PartOfSys, AWholeOneLeavesNothingOut) {
  EXPECT_TRUE(unreadable().empty());
  EXPECT_TRUE(can_hwloc_read_processors(sys_));
}

// Sets of processors have all of each other, or nothing. hwloc prints a banner for others.
TEST_F(PartOfSys, ContradictionsAreNotForHwloc) {
  write("devices/system/cpu/online", "0-5");
  write("devices/system/node/online", "0-1");
  write("devices/system/node/node0/cpulist", "0-2");
  write("devices/system/node/node1/cpulist", "3-5");
  for (int number = 0; number < 6; ++number) {
    const std::string cpu = "devices/system/cpu/cpu" + std::to_string(number);
    write(cpu + "/topology/core_siblings_list", "0-5");
    write(cpu + "/topology/core_cpus_list", std::to_string(number));
    write(cpu + "/cache/index0/shared_cpu_list", std::to_string(number));
  }
  EXPECT_EQ(contradiction_in(sys_), "");
  write("devices/system/cpu/cpu2/cache/index1/shared_cpu_list", "2-3");
  EXPECT_EQ(contradiction_in(sys_),
            sys_.string() +
                " contradicts itself: NUMA node 0 and a cache of processor 2 have some "
                "processors in common, but not all of either");
  write("devices/system/cpu/cpu2/cache/index1/shared_cpu_list", "1-2");
  EXPECT_EQ(contradiction_in(sys_), "");
}

// What hwloc would end the process for.
TEST_F(PartOfSys, NodesWithoutAnyAreNotForHwloc) {
  remove("devices/system/node/node0");
  write("devices/system/node/has_cpu", "0");
  EXPECT_FALSE(can_hwloc_read_processors(sys_));
  EXPECT_EQ(phrase(), "NUMA nodes, because SYS/devices/system/node has none");
  remove("devices/system/node");  // a kernel that knows none
  EXPECT_TRUE(can_hwloc_read_processors(sys_));
  EXPECT_TRUE(unreadable().empty());
}

TEST_F(PartOfSys, ProcessorsMayBeOfflineOrNotTold) {
  remove("devices/system/cpu/cpu0");
  write("devices/system/cpu/online", "2-3");
  write("devices/system/cpu/cpu2/topology/core_cpus", "4");
  EXPECT_TRUE(can_hwloc_read_processors(sys_));
  remove("devices/system/cpu/cpu2");
  EXPECT_FALSE(can_hwloc_read_processors(sys_));
  EXPECT_TRUE(phrase().ends_with("because SYS/devices/system/cpu has no topology of processors"));
}

TEST_F(PartOfSys, CardsMayBeNoneButNotLost) {
  remove("bus/pci/devices/0000:00:01.0");
  EXPECT_TRUE(unreadable().empty());  // a machine without PCI devices
  std::filesystem::create_symlink("../nowhere", sys_ / "bus/pci/devices/0000:00:02.0");
  EXPECT_EQ(phrase(),
            "which GPUs and other cards are on PCI, because 0000:00:02.0 in "
            "SYS/bus/pci/devices leads nowhere");
  remove("bus");
  EXPECT_TRUE(phrase().ends_with("because SYS/bus is not there"));
}

TEST_F(PartOfSys, LostInterfacesAreNamedUpToABound) {
  for (int i = 0; i < 12; ++i)
    std::filesystem::create_symlink("../nowhere", sys_ / "class/net" / ("if" + std::to_string(i)));
  EXPECT_EQ(phrase(),
            "which network interfaces there are, because if0, if1, if2, if3, if4, if5, "
            "if6, if7 and 4 more in SYS/class/net lead nowhere");
  remove("class/net");
  EXPECT_TRUE(phrase().ends_with("because SYS/class/net is not there"));
}

}  // namespace
}  // namespace weft
