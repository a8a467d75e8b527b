// Causes that operators meet, each on one host of three: the doctor names the cause and the host, and sees nothing
// wrong with the others. Where a file of the kernel's shows a cause, the file is changed; what only a system call or a
// job tells is changed in the facts.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <ostream>

#include "tests/diagnosis/fake_host.h"

namespace weft {
namespace {

constexpr int kSick = 1;

struct Cause {
  std::string name;
  std::string check;
  std::function<void(const FakeHost&)> files;
  std::function<void(HostFacts&)> facts{};
  Severity severity = Severity::severe;
};
void PrintTo(const Cause& cause, std::ostream* to) {
  *to << cause.name;
}

std::vector<Cause> causes() {
  const std::function<void(const FakeHost&)> nothing;  // no file shows it
  const auto warning = Severity::warning;
  return {
      {"CardInEightLanes", "pci-link",
       [](const FakeHost& host) { host.set(host.device(kCard[0]) + "current_link_width", "8"); }},
      {"CardInGen3", "pci-link",
       [](const FakeHost& host) {
         host.set(host.device(kCard[1]) + "current_link_speed", "8.0 GT/s PCIe");
       }},
      {"BridgeInGen3", "pci-link",
       [](const FakeHost& host) {
         host.set(host.device(kRootPort[0]) + "current_link_speed", "8.0 GT/s PCIe");
       }},
      {"PortDown", "rails",
       [](const FakeHost& host) {
         host.set(host.port(1) + "state", "1: DOWN");
         host.set(host.port(1) + "phys_state", "2: Polling");
       }},
      {"PortAtAQuarter", "port-rate",
       [](const FakeHost& host) { host.set(host.port(0) + "rate", "50 Gb/sec (1X HDR)"); },
       [](HostFacts& facts) { facts.nics[0].most_mbit_per_s = 200'000; }},
      {"SmallMemlock", "memlock",
       [](const FakeHost& host) {
         host.set("proc/self/limits",
                  "Max open files            1024                 1048576              files     \n"
                  "Max locked memory         8388608              8388608              bytes     ");
       }},
      {"FewFiles",
       "limits",
       [](const FakeHost& host) {
         host.set("proc/self/limits",
                  "Max open files            1024                 1024                 files     ");
       },
       {},
       warning},
      {"SmallMtu",
       "mtu",
       [](const FakeHost& host) { host.set(host.netdev(0) + "mtu", "1500"); },
       {},
       warning},
      {"PortWithoutAddress", "gid",
       [](const FakeHost& host) { host.remove(host.port(0) + "gids/0"); }},
      {"ForbiddenDevice", "device-access", nothing,
       [](HostFacts& facts) {
         facts.nics[0].device_error = EPERM;
         facts.nics[0].usable = false;
       }},
      {"MissingDeviceFile", "device-access",
       [](const FakeHost& host) { host.remove("dev/infiniband/uverbs1"); }},
      {"StrictOrdering",
       "relaxed-ordering",
       [](const FakeHost& host) { host.set_byte(kCard[0], 0x68, 0); },
       {},
       warning},
      {"NoPeermem", "gpu-memory",
       [](const FakeHost& host) { host.remove("sys/module/nvidia_peermem"); }},
      {"AccessControl", "peer-traffic",
       [](const FakeHost& host) {
         // The capability at 0x100: number 13, version 1; redirects of requests and completions on.
         host.set_byte(kSwitchPort[0], 0x100, 0x0d);
         host.set_byte(kSwitchPort[0], 0x102, 0x01);
         host.set_byte(kSwitchPort[0], 0x106, 0x0c);
       }},
      {"TranslatingIommu",
       "peer-traffic",
       [](const FakeHost& host) {
         host.set(host.device(kCard[0]) + "iommu_group/type", "DMA");
         host.set(host.device(kGpu[0]) + "iommu_group/type", "DMA");
       },
       {},
       warning},
      {"SmallShm",
       "shm",
       [](const FakeHost& host) {
         host.set("proc/self/mounts", "shm /dev/shm tmpfs rw,nosuid,size=65536k 0 0");
       },
       {},
       warning},
      {"ReservedHugePages",
       "huge-pages",
       [](const FakeHost& host) {
         host.set(
             "proc/meminfo",
             "MemTotal:       263854592 kB\nHugePages_Total:   100000\nHugePages_Free:    100000\n"
             "Hugepagesize:       2048 kB");
       },
       {},
       warning},
      {"QuotaOfTwoCores", "cpu-quota",
       [](const FakeHost& host) {
         host.set("sys/fs/cgroup/user.slice/cpu.max", "200000 100000");
         host.write("sys/fs/cgroup/user.slice/cpu.stat", "nr_periods 100\nnr_throttled 40");
       },
       [](HostFacts& facts) {
         for (int cpu = 0; cpu < 32; ++cpu) facts.cpus.push_back(cpu);
       }},
      {"BoundToFarNode", "binding", nothing,
       [](HostFacts& facts) {
         facts.ranks = {{0, {16, 17}, 0}, {1, {18, 19}, 1}};
       },
       warning},
      {"RanksOnOneCore", "binding", nothing,
       [](HostFacts& facts) {
         facts.ranks = {{0, {0}, -1}, {1, {0}, -1}};
       }},
      {"LinkFlaps", "errors", nothing,
       [](HostFacts& facts) {
         facts.before = facts.now;
         facts.before.at_ns -= 3'600'000'000'000;
         facts.now.counters["mlx5_0"]["link_downed"] += 3;
       }},
      {"SymbolErrors", "errors", nothing,
       [](HostFacts& facts) {
         facts.before = facts.now;
         facts.before.at_ns -= 1'000'000'000;
         facts.now.counters["mlx5_1"]["symbol_error"] += 17;
       },
       warning},
      {"LostPackets", "errors", nothing,
       [](HostFacts& facts) {
         facts.before = facts.now;
         facts.before.at_ns -= 1'000'000'000;
         facts.now.counters["mlx5_1"]["out_of_sequence"] += 200;
       },
       warning},
      {"ClockAhead", "clocks", nothing,
       [](HostFacts& facts) {
         facts.clock_least_s = 2.5;
         facts.clock_most_s = 2.6;
       },
       warning},
      {"OtherFirmware",
       "versions",
       [](const FakeHost& host) { host.set("sys/class/infiniband/mlx5_0/fw_ver", "28.39.1002"); },
       {},
       warning},
      {"OtherDriver",
       "versions",
       [](const FakeHost& host) { host.set("sys/module/mlx5_core/version", "23.04-0.5.3"); },
       {},
       warning},
      {"OtherWeft", "versions", nothing, [](HostFacts& facts) { facts.weft = "0.2.0"; }, warning},
      {"WrongNetwork",
       "lone-network",
       [](const FakeHost& host) {
         host.give_address(1, 7, 2);
         host.write_routes();
       },
       {},
       warning},
      {"TwoInterfacesOnOneNetwork",
       "shared-network",
       [](const FakeHost& host) {
         host.give_address(1, 0, 20);
         host.write_routes();
       },
       {},
       warning},
      {"StrictReversePath", "shared-network",
       [](const FakeHost& host) {
         host.give_address(1, 0, 20);
         host.write_routes();
         host.set("proc/sys/net/ipv4/conf/all/rp_filter", "1");
       }},
      {"NoFlowControl", "flow-control",
       [](const FakeHost& host) {
         for (const char* role : {"roce_np", "roce_rp"})
           host.set(fmt::format("{}ecn/{}/enable/3", host.netdev(0), role), "0");
       },
       [](HostFacts& facts) { facts.nics[0].pfc = 0; }, warning},
      {"WrongTrafficClass", "traffic-class", nothing,
       [](HostFacts& facts) { facts.traffic_class = 0; }, warning},
      {"ForcedGidIndex", "gid", nothing, [](HostFacts& facts) { facts.gid_index = 3; }},
  };
}

class Causes : public testing::TestWithParam<Cause> {
 protected:
  static void TearDownTestSuite() {
    fmt::print("causes named: {} of {}\n", named_, causes().size());
  }
  static inline int named_ = 0;
};

TEST_P(Causes, IsNamedAndNothingElse) {
  const Cause& cause = GetParam();
  std::vector<HostFacts> hosts = clean_hosts();
  if (cause.files) {
    const FakeFolder folder;
    const FakeHost sick(folder.path() / "sick", kSick + 1);
    cause.files(sick);
    hosts[kSick] = with_answers(sick.facts());
  }
  if (cause.facts) cause.facts(hosts[kSick]);
  const std::vector<Finding> found = diagnose(hosts);
  const auto named = std::ranges::find(found, cause.check, &Finding::check);
  ASSERT_NE(named, found.end());
  EXPECT_EQ(named->severity, cause.severity);
  EXPECT_FALSE(named->seen.empty());
  EXPECT_FALSE(named->mend.empty());
  for (const Finding& finding : found)
    EXPECT_EQ(finding.hosts, std::vector<std::string>{"node1"})
        << finding.check << ": " << finding.what;
  if (!HasFailure()) ++named_;
}

INSTANTIATE_TEST_SUITE_P(Seeded, Causes, testing::ValuesIn(causes()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weft
