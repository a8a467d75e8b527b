// The files of a clean host.
#include "tests/diagnosis/fake_host.h"

#include <fmt/format.h>
#include <unistd.h>

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kConfiguration = 4096;
// Where the capability of PCI Express is, and its control register with relaxed ordering.
constexpr std::size_t kExpress = 0x60, kRelaxed = kExpress + 8;

// Root reads all of it: no access control anywhere, relaxed ordering on.
std::string clean_configuration() {
  std::string bytes(kConfiguration, '\0');
  bytes[0x34] = static_cast<char>(kExpress);
  bytes[kExpress] = 0x10;
  bytes[kRelaxed] = 0x10;
  return bytes;
}

}  // namespace

FakeHost::FakeHost(const fs::path& root, int number) : root_(root) {
  write("proc/sys/kernel/hostname", fmt::format("node{}", number - 1));
  write("proc/sys/kernel/osrelease", "6.8.0");
  write("proc/sys/kernel/random/boot_id", fmt::format("boot-{}", number));
  write("proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max processes             96365                96365                processes \n"
        "Max open files            1024                 1048576              files     \n"
        "Max locked memory         unlimited            unlimited            bytes     \n"
        "Max address space         unlimited            unlimited            bytes     ");
  write("proc/self/status", "CapEff:\t0000000000000000");
  write("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0");
  write("proc/self/cgroup", "0::/user.slice/session-1.scope");
  write("proc/meminfo",
        "MemTotal:       263854592 kB\nHugePages_Total:       0\nHugePages_Free:        0\n"
        "Hugepagesize:       2048 kB");
  write("sys/kernel/mm/transparent_hugepage/shmem_enabled",
        "always within_size [advise] never deny force");
  write("sys/fs/cgroup/user.slice/cpu.max", "max 100000");
  write("sys/devices/system/node/online", "0-1");
  write("sys/devices/system/node/node0/cpulist", "0-15");
  write("sys/devices/system/node/node1/cpulist", "16-31");
  write("sys/module/mlx5_core/version", "24.10-1.1.4");
  write("sys/module/nvidia/version", "570.86.15");
  write("sys/module/nvidia_peermem/refcnt", "0");
  write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15");
  for (const char* name : {"rp_filter", "arp_ignore", "arp_announce"})
    write(fmt::format("proc/sys/net/ipv4/conf/all/{}", name), "0");
  write("sys/class/net/lo/type", "772");
  add_card(0, "3");
  add_card(1, "b");
  give_address(0, 0, number);
  give_address(1, 1, number);
  write_routes();
}

void FakeHost::write(const std::string& path, const std::string& text) const {
  fs::create_directories((root_ / path).parent_path());
  std::ofstream(root_ / path) << text << '\n';
}

void FakeHost::set_byte(const std::string& address, std::size_t at, char value) const {
  std::fstream file(root_ / device(address) / "config",
                    std::ios::binary | std::ios::in | std::ios::out);
  ASSERT_TRUE(file) << address;
  file.seekp(static_cast<std::streamoff>(at));
  file.put(value);
}

void FakeHost::add_device(const std::string& above, const std::string& address, int node, double gt,
                          int lanes) const {
  const std::string folder = above + address + '/';
  fs::create_directories(root_ / folder);
  fs::create_directories(root_ / "sys/bus/pci/devices");
  fs::create_directory_symlink(root_ / folder, root_ / "sys/bus/pci/devices" / address);
  write(folder + "current_link_speed", fmt::format("{:.1f} GT/s PCIe", gt));
  write(folder + "max_link_speed", fmt::format("{:.1f} GT/s PCIe", gt));
  write(folder + "current_link_width", std::to_string(lanes));
  write(folder + "max_link_width", std::to_string(lanes));
  write(folder + "numa_node", std::to_string(node));
  write(folder + "class", "0x060400");
  write(folder + "vendor", "0x8086");
  write(folder + "iommu_group/type", "identity");
  std::ofstream(root_ / folder / "config", std::ios::binary) << clean_configuration();
}

// Root port, a switch with two ports, and below them the card and the GPU.
void FakeHost::add_card(int card, const std::string& bus) const {
  constexpr double kGen4 = 16;
  const auto number = static_cast<std::size_t>(card);
  const std::string top = fmt::format("sys/devices/pci0000:{}a/", bus);
  add_device(top, kRootPort[number], card, kGen4, 16);
  const std::string root_port = top + kRootPort[number] + '/';
  const std::string up = fmt::format("0000:{}b:00.0", bus);
  add_device(root_port, up, card, kGen4, 16);
  const std::string in_switch = root_port + up + '/';
  add_device(in_switch, kSwitchPort[number], card, kGen4, 16);
  const std::string second = fmt::format("0000:{}c:01.0", bus);
  add_device(in_switch, second, card, kGen4, 16);
  add_device(in_switch + kSwitchPort[number] + '/', kCard[number], card, kGen4, 16);
  add_device(in_switch + second + '/', kGpu[number], card, kGen4, 16);
  write(device(kGpu[number]) + "class", "0x030200");
  write(device(kGpu[number]) + "vendor", "0x10de");
  write(device(kCard[number]) + "class", "0x020000");
  write(device(kCard[number]) + "vendor", "0x15b3");
  fs::create_directories(root_ / "sys/bus/pci/drivers/mlx5_core");
  fs::create_directory_symlink(root_ / "sys/bus/pci/drivers/mlx5_core",
                               root_ / device(kCard[number]) / "driver");

  const std::string rdma = fmt::format("sys/class/infiniband/mlx5_{}/", card);
  write(rdma + "node_type", "1: CA");
  write(rdma + "fw_ver", "28.43.1014");
  write(rdma + "board_id", "MT_0000000838");
  fs::create_directory_symlink(root_ / device(kCard[number]), root_ / rdma / "device");
  write(port(card) + "state", "4: ACTIVE");
  write(port(card) + "phys_state", "5: LinkUp");
  write(port(card) + "rate", "200 Gb/sec (4X HDR)");
  write(port(card) + "link_layer", "Ethernet");
  for (const char* name : {"symbol_error", "link_downed", "port_rcv_errors"})
    write(port(card) + "counters/" + name, "0");
  write(port(card) + "hw_counters/out_of_sequence", "0");
  write(fmt::format("sys/class/infiniband_verbs/uverbs{}/ibdev", card),
        fmt::format("mlx5_{}", card));
  write(fmt::format("dev/infiniband/uverbs{}", card), "");

  write(netdev(card) + "operstate", "up");
  write(netdev(card) + "carrier", "1");
  write(netdev(card) + "type", "1");
  write(netdev(card) + "mtu", "9000");
  write(netdev(card) + "speed", "200000");
  write(netdev(card) + "carrier_down_count", "1");
  fs::create_directory_symlink(root_ / device(kCard[number]), root_ / netdev(card) / "device");
  for (const char* role : {"roce_np", "roce_rp"})
    write(fmt::format("{}ecn/{}/enable/3", netdev(card), role), "1");
  for (const char* name : {"rp_filter", "arp_ignore", "arp_announce"})
    write(fmt::format("proc/sys/net/ipv4/conf/eth{}/{}", card, name), "0");
}

void FakeHost::give_address(int card, int net, int number) const {
  std::erase_if(addresses_, [card](const Address& address) { return address.card == card; });
  addresses_.push_back({card, net, number});
  write(port(card) + "gids/0",
        fmt::format("0000:0000:0000:0000:0000:ffff:0a{:02x}:{:04x}", net, number));
  write(port(card) + "gid_attrs/types/0", "RoCE v2");
  write(port(card) + "gid_attrs/ndevs/0", fmt::format("eth{}", card));
}

void FakeHost::write_routes() const {
  std::string routes =
      "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n";
  std::string own = "Local:\n";
  for (const Address& address : addresses_) {
    routes += fmt::format("eth{}\t0000{:02X}0A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n",
                          address.card, address.net);
    own += fmt::format("           |-- 10.{}.0.{}\n              /32 host LOCAL\n", address.net,
                       address.number);
  }
  write("proc/self/net/route", routes);
  write("proc/self/net/fib_trie", own);
}

FakeFolder::FakeFolder() {
  std::string folder = fs::path(testing::TempDir()) / "weft-hosts-XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  path_ = folder;
}

HostFacts with_answers(HostFacts facts) {
  for (NicFacts& nic : facts.nics) {
    nic.most_mbit_per_s = 200'000;
    nic.pfc = 1 << 3;
    nic.pause = 0;
  }
  facts.traffic_class = 106;  // priority 3, knows ECN
  facts.is_clock_synchronized = 1;
  facts.clock_least_s = -0.01;
  facts.clock_most_s = 0.01;
  facts.ranks = {{0, {0, 1, 2, 3}, 0}, {1, {16, 17, 18, 19}, 1}};
  return facts;
}

const std::vector<HostFacts>& clean_hosts() {
  static const std::vector<HostFacts> kHosts = [] {
    std::vector<HostFacts> hosts;
    const FakeFolder folder;
    for (int number = 1; number <= 3; ++number)
      hosts.push_back(
          with_answers(FakeHost(folder.path() / std::to_string(number), number).facts()));
    return hosts;
  }();
  return kHosts;
}

}  // namespace weft
