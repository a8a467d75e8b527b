// The `weft` command where /sys is not there, as in some containers: in a mount namespace that covers it.
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

}  // namespace
}  // namespace weft
