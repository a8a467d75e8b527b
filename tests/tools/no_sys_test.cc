// The `weft` command where /sys is not there, or in part, as in some containers: in a mount namespace that covers it.
#include <gtest/gtest.h>

#include "tests/tools/command.h"

namespace weft {
namespace {

constexpr const char* kNotMounted = "/sys is not mounted";

class WithoutSys : public testing::Test {
 protected:
  void SetUp() override {
    if (without_sys("true").exit_status != 0) GTEST_SKIP() << "mount namespaces are not possible";
  }
  static Ran without_sys(const std::string& line) {
    return run_line("unshare -m sh -c 'mount -t tmpfs none /sys && " + line + "'");
  }
};

TEST_F(WithoutSys, TopoSaysWhatIsNotKnown) {
  const Ran ran = without_sys("{weft} topo");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "this machine: "));
  EXPECT_TRUE(mentions(ran.out, kNotMounted));
}

TEST_F(WithoutSys, DevicesSaysWhy) {
  const Ran ran = without_sys("{weft} devices");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(
      mentions(ran.out, std::string("no network interface: which network interfaces there are is "
                                    "not known, because ") +
                            kNotMounted));
}

TEST_F(WithoutSys, ClustersOfOtherMachinesAreMappedAllTheSame) {
  const Ran ran =
      without_sys("{weft} map --cluster " WEFT_CLUSTERS "/two-leaves.toml --graph ring");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "mlx5_0 and GPU 0 are below one PCI switch"));
}

TEST_F(WithoutSys, PlanningForMachinesLikeThisAsksForAFile) {
  const Ran ran = without_sys("{weft} predict --like this --machines 4");
  EXPECT_EQ(ran.exit_status, 1);
  EXPECT_TRUE(mentions(ran.errors, "no network interface with a known rate"));
}

TEST_F(WithoutSys, RanksOfOneMachineNeedNone) {
  const Ran ran = without_sys("{weft} perf neighbor_allreduce -n 2 --sizes 64K --seconds 0.01");
  EXPECT_EQ(ran.exit_status, 0);
}

TEST_F(WithoutSys, NetworksThatWereAskedForAreAnError) {
  if (!WEFT_HAS_UCX) GTEST_SKIP() << "this build has no UCX";
  const Ran ran =
      without_sys("{weft} perf neighbor_allreduce --transport ucx -n 2 --sizes 64K --seconds 0.01");
  EXPECT_NE(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.errors, kNotMounted));
}

class WithPartOfSys : public testing::Test {
 protected:
  void SetUp() override {
    if (covered("/sys/devices/system/node", "true").exit_status != 0)
      GTEST_SKIP() << "mount namespaces are not possible, or nothing is to be covered";
  }
  // With an empty folder over that one.
  static Ran covered(const std::string& folder, const std::string& line) {
    return run_line("unshare -m sh -c 'mount -t tmpfs none " + folder + " && " + line + "'");
  }
};

TEST_F(WithPartOfSys, NodesThatAreUnknownEndNoProgram) {
  const std::string folder = "/sys/devices/system/node";
  const std::string why = "NUMA nodes, because " + folder + " has none";
  const Ran topo = covered(folder, "{weft} topo");
  EXPECT_EQ(topo.exit_status, 0);
  EXPECT_TRUE(topo.errors.empty());
  EXPECT_TRUE(mentions(topo.out, "unknown: " + why));
  const Ran machine = covered(folder, "{weft} machine");
  EXPECT_EQ(machine.exit_status, 0);
  EXPECT_TRUE(mentions(machine.out, why));
  EXPECT_FALSE(
      mentions(covered(folder, "{weft} predict --like this --machines 4").errors, "hwloc"));
  // With a file that says what the machine is like, ranks look at it.
  const Ran ranks = covered(folder, "WEFT_HARDWARE=" WEFT_CORPUS
                                    "/correct/small.toml {weft} perf neighbor_allreduce -n 2 "
                                    "--sizes 64K --seconds 0.01");
  EXPECT_EQ(ranks.exit_status, 0);
}

TEST_F(WithPartOfSys, ProcessorsThatAreUnknownAreSaidInOurWords) {
  const std::string folder = "/sys/devices/system/cpu";
  const Ran ran = covered(folder, "{weft} topo");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(ran.errors.empty());
  EXPECT_TRUE(mentions(ran.out, "because " + folder + " is empty"));
}

TEST_F(WithPartOfSys, InterfacesWithoutTheirFoldersAreUnknown) {
  const Ran topo = covered("/sys/devices", "{weft} topo");
  EXPECT_EQ(topo.exit_status, 0);
  EXPECT_TRUE(topo.errors.empty());
  EXPECT_TRUE(mentions(topo.out, "which network interfaces there are, because "));
  EXPECT_TRUE(mentions(topo.out, "lo in /sys/class/net lead nowhere"));
  const Ran devices = covered("/sys/devices", "{weft} devices");
  EXPECT_EQ(devices.exit_status, 0);
  EXPECT_TRUE(mentions(devices.out, "unknown, because /sys/class/net/lo leads nowhere"));
  EXPECT_FALSE(mentions(devices.out, "has no carrier"));
}

// Every network has its loopback.
TEST_F(WithPartOfSys, NoInterfaceAtAllIsUnknown) {
  const Ran topo = covered("/sys/class/net", "{weft} topo");
  EXPECT_EQ(topo.exit_status, 0);
  const std::string why = "because /sys/class/net is empty";
  EXPECT_TRUE(mentions(topo.out, "unknown: which network interfaces there are, " + why));
  EXPECT_TRUE(mentions(covered("/sys/class/net", "{weft} devices").out, why));
  EXPECT_TRUE(
      mentions(covered("/sys/class/net", "{weft} predict --like this --machines 4").errors, why));
}

}  // namespace
}  // namespace weft
