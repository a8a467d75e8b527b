// Hosts on which nothing is wrong: not a word, not even a hint.
#include <fmt/format.h>

#include <functional>

#include "tests/diagnosis/fake_host.h"

namespace weft {
namespace {

void expect_nothing(const std::vector<HostFacts>& hosts) {
  for (const Finding& finding : diagnose(hosts))
    ADD_FAILURE() << finding.check << " on " << finding.hosts.front() << ": " << finding.what
                  << " (" << finding.seen << ")";
}

HostFacts host_named(int number) {
  HostFacts facts;
  facts.weft = "0.3.0";
  facts.kernel = "6.8.0";
  facts.host = fmt::format("node{}", number);
  facts.boot = fmt::format("boot-{}", number);
  facts.files = 1'048'576;
  facts.memory_bytes = std::int64_t{256} << 30;
  facts.shm_bytes = std::int64_t{128} << 30;
  facts.nodes = {{0, {0, 1, 2, 3, 4, 5, 6, 7}}};
  return facts;
}

std::vector<HostFacts> three(const std::function<void(HostFacts&, int number)>& fill) {
  std::vector<HostFacts> hosts;
  for (int number = 0; number < 3; ++number) {
    hosts.push_back(host_named(number));
    fill(hosts.back(), number);
  }
  return hosts;
}

TEST(Clean, RoceWithGpusOnTwoSockets) {
  expect_nothing(clean_hosts());
}

TEST(Clean, EightPortsOfInfiniband) {
  expect_nothing(three([](HostFacts& facts, int) {
    facts.nodes.push_back({1, {8, 9, 10, 11, 12, 13, 14, 15}});
    for (int port = 0; port < 8; ++port) {
      NicFacts nic;
      nic.name = nic.rdma = fmt::format("mlx5_{}", port);
      nic.kind = "infiniband";
      nic.link_layer = "InfiniBand";
      nic.state = "ACTIVE";
      nic.rate = "400 Gb/sec (4X NDR)";
      nic.mbit_per_s = 400'000;
      nic.network = "fe80:0:0:0::/64";
      nic.gids = {{0, "InfiniBand", "fe80::1", true}};
      nic.usable = true;
      nic.device_file = fmt::format("/dev/infiniband/uverbs{}", port);
      nic.driver = "mlx5_core";
      nic.board = "MT_0000000838";
      nic.firmware = "28.43.1014";
      nic.pci = {fmt::format("0000:{:x}8:00.0", port + 1),
                 {{"", 32, 32, 16, 16}},
                 port / 4,
                 1,
                 "identity"};
      facts.nics.push_back(nic);
      // An idle GPU's link is slow, and as wide as ever.
      facts.gpus.push_back({port, "H100", true, {"", {{"", 2.5, 32, 16, 16}}, port / 4, -1, ""}});
      facts.ranks.push_back({port, {port * 2, port * 2 + 1}, port});
    }
    facts.nics[3].state = "ACTIVE";
    NicFacts unused = facts.nics[0];  // a second card for storage, without a cable
    unused.name = unused.rdma = "mlx5_8";
    unused.board = "MT_0000000359";
    unused.state = "DOWN";
    unused.usable = false;
    facts.nics.push_back(unused);
    facts.has_nvidia = true;
    facts.dma_buf = 1;
  }));
}

// Passed through or paravirtual: neither PCI links nor rates, one network.
TEST(Clean, VirtualMachinesOfACloud) {
  expect_nothing(three([](HostFacts& facts, int number) {
    NicFacts nic;
    nic.name = nic.netdev = "eth0";
    nic.kind = "ethernet";
    nic.state = "up";
    nic.mtu = 1500;
    nic.ip = fmt::format("172.16.0.{}/24", number + 4);
    nic.network = "172.16.0.0/24";
    nic.is_routed = true;
    nic.usable = true;
    nic.driver = "virtio_net";
    nic.pci.address = "0000:00:05.0";
    nic.rp_filter = 1;
    nic.arp_ignore = nic.arp_announce = 0;
    facts.nics = {nic};
    facts.is_clock_synchronized = 1;
    facts.locked_bytes = 8 << 20;  // without RDMA nobody locks memory
  }));
}

// Soft-RoCE on an interface that the kernel makes up.
TEST(Clean, SoftRoce) {
  expect_nothing(three([](HostFacts& facts, int number) {
    NicFacts nic;
    nic.name = nic.rdma = "rxe0";
    nic.netdev = "veth0";
    nic.kind = "veth";
    nic.link_layer = "Ethernet";
    nic.state = "ACTIVE";
    nic.rate = "10 Gb/sec (1X FDR10)";
    nic.mbit_per_s = 10'000;
    nic.mtu = 1500;
    nic.ip = fmt::format("10.9.0.{}/24", number + 1);
    nic.network = "10.9.0.0/24";
    nic.gids = {{1, "RoCE v2", "10.9.0.1", true}};
    nic.usable = true;
    nic.device_file = "/dev/infiniband/uverbs0";
    facts.nics = {nic};
  }));
}

// Each port is joined to its switch by a network of two addresses; a slow network joins the hosts besides.
TEST(Clean, RailsThatRoutersJoin) {
  expect_nothing(three([](HostFacts& facts, int number) {
    for (int port = 0; port < 3; ++port) {
      NicFacts nic;
      nic.name = nic.netdev = fmt::format("eth{}", port);
      nic.kind = "ethernet";
      nic.state = "up";
      nic.mtu = port == 0 ? 1500 : 9000;
      nic.mbit_per_s = port == 0 ? 10'000 : 100'000;
      nic.network = port == 0 ? "192.168.0.0/24" : fmt::format("10.{}.0.{}/31", port, 2 * number);
      nic.ip = port == 0 ? fmt::format("192.168.0.{}/24", number + 1)
                         : fmt::format("10.{}.0.{}/31", port, 2 * number + 1);
      nic.usable = true;
      nic.driver = port == 0 ? "igb" : "mlx5_core";
      facts.nics.push_back(nic);
    }
  }));
}

}  // namespace
}  // namespace weft
