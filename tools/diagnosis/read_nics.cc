// Network interfaces and RDMA ports: what verbs/device has of them, and what only an operator asks for.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "tools/diagnosis/ethernet.h"
#include "tools/diagnosis/read.h"
#include "verbs/device/device.h"

namespace weft::diagnosis {
namespace {

struct Route {
  std::string netdev;
  std::uint32_t to = 0, mask = 0;
  bool has_gateway = false;
};

std::uint32_t hex_number(const std::string& text) {
  return static_cast<std::uint32_t>(std::strtoul(text.c_str(), nullptr, 16));
}

// /proc/net/route: "eth0 0000000A 00000000 0001 0 0 0 00FFFFFF …", addresses in the order of the net.
std::vector<Route> routes_of(const Root& root) {
  constexpr std::size_t kMask = 7;
  std::vector<Route> routes;
  for (const std::string& line : lines(root.self() / "net/route")) {
    const std::vector<std::string> told = words(line);
    if (told.size() <= kMask || told[0] == "Iface") continue;
    routes.push_back(
        {told[0], hex_number(told[1]), hex_number(told[kMask]), hex_number(told[2]) != 0});
  }
  return routes;
}

// Of another root: the kernel lists its own IPv4 addresses in one file, and the networks of its
// interfaces in another.
void add_ip4(const Root& root, const std::vector<Route>& routes,
             std::vector<InterfaceAddress>& to) {
  std::set<std::string> own;
  std::string last;
  for (const std::string& line : lines(root.self() / "net/fib_trie")) {
    const std::vector<std::string> told = words(line);
    if (told.size() == 2 && told[0] == "|--") last = told[1];
    if (told.size() == 3 && told[0] == "/32" && told[1] == "host") own.insert(last);
  }
  for (const std::string& address : own) {
    for (const Route& route : routes) {
      int bits = 0;
      for (std::uint32_t mask = route.mask; mask != 0; mask &= mask - 1) ++bits;
      const Result<GidAddress> parsed =
          parse_gid(fmt::format("{}/{}", address, bits), GidKind::roce_v2);
      if (!parsed.ok() || route.has_gateway || route.mask == 0) continue;
      std::uint32_t bytes = 0;
      for (int i = 3; i >= 0; --i)
        bytes = bytes << 8 | parsed->bytes[static_cast<std::size_t>(12 + i)];
      if ((bytes & route.mask) == route.to) to.push_back({route.netdev, parsed->bytes, bits});
    }
  }
}

// /proc/net/if_inet6: "fe80…0001 02 40 20 80 eth0".
void add_ip6(const Root& root, std::vector<InterfaceAddress>& to) {
  constexpr std::size_t kDigits = 32, kGroup = 4;
  for (const std::string& line : lines(root.self() / "net/if_inet6")) {
    const std::vector<std::string> told = words(line);
    if (told.size() != 6 || told[0].size() != kDigits) continue;
    std::string address;
    for (std::size_t at = 0; at < kDigits; at += kGroup)
      address += (at == 0 ? "" : ":") + told[0].substr(at, kGroup);
    const int bits = static_cast<int>(hex_number(told[2]));
    const Result<GidAddress> parsed =
        parse_gid(fmt::format("{}/{}", address, bits), GidKind::roce_v2);
    if (parsed.ok()) to.push_back({told[5], parsed->bytes, bits});
  }
}

std::vector<InterfaceAddress> addresses_of(const Root& root, const std::vector<Route>& routes) {
  if (root.is_live) return interface_addresses();
  std::vector<InterfaceAddress> found;
  add_ip4(root, routes, found);
  add_ip6(root, found);
  return found;
}

// The larger of what is set for all interfaces and for this one is in force.
int in_force(const Root& root, const std::string& netdev, const char* name) {
  const fs::path conf = root.path / "proc/sys/net/ipv4/conf";
  const auto all = number(conf / "all" / name), own = number(conf / netdev / name);
  if (!all && !own) return -1;
  return static_cast<int>(std::max(all.value_or(0), own.value_or(0)));
}

// NVIDIA's driver shows for each priority whether it sends and obeys congestion notifications.
int ecn_of(const fs::path& netdev) {
  int mask = -1;
  for (int priority = 0; priority < 8; ++priority) {
    const auto part = [&](const char* role) {
      return number(netdev / "ecn" / role / "enable" / std::to_string(priority));
    };
    const auto notes = part("roce_np"), reacts = part("roce_rp");
    if (!notes || !reacts) continue;
    mask = std::max(mask, 0) | (*notes != 0 && *reacts != 0 ? 1 << priority : 0);
  }
  return mask;
}

void read_ethernet(const Root& root, NicFacts& nic) {
  if (nic.netdev.empty()) return;
  nic.rp_filter = in_force(root, nic.netdev, "rp_filter");
  nic.arp_ignore = in_force(root, nic.netdev, "arp_ignore");
  nic.arp_announce = in_force(root, nic.netdev, "arp_announce");
  const fs::path netdev = root.sys() / "class/net" / nic.netdev;
  nic.ecn = ecn_of(netdev);
  std::error_code error;
  if (nic.driver.empty()) nic.driver = fs::read_symlink(netdev / "device/driver", error).filename();
  if (!root.is_live) return;
  const EthernetAnswers told = ask_ethernet(nic.netdev);
  if (nic.is_card()) nic.most_mbit_per_s = told.most_mbit_per_s;
  nic.pause = told.pause;
  nic.pfc = told.pfc;
  if (nic.firmware.empty()) nic.firmware = told.firmware;
}

NicFacts facts_of(const NetworkInterface& net) {
  NicFacts nic;
  nic.name = nic.netdev = net.name;
  nic.kind = net.kind;
  nic.state = net.state;
  nic.mbit_per_s = net.mbit_per_s;
  nic.mtu = net.mtu;
  nic.ip = net.ip;
  nic.network = net.network;
  nic.bond = net.bond;
  nic.is_virtual_function = net.is_virtual_function;
  nic.usable = net.usable;
  nic.reason = net.reason;
  nic.pci.address = net.pci;
  nic.pci.node = net.numa_node;
  return nic;
}

// access(2) asks every guard that open(2) would, the container's device rules among them.
void find_device_file(const Root& root, NicFacts& nic) {
  for (const std::string& name : names(root.sys() / "class/infiniband_verbs")) {
    if (text(root.sys() / "class/infiniband_verbs" / name / "ibdev") != nic.rdma) continue;
    nic.device_file = "/dev/infiniband/" + name;
    const fs::path file = root.path / "dev/infiniband" / name;
    if (::faccessat(AT_FDCWD, file.c_str(), R_OK | W_OK, AT_EACCESS) != 0) nic.device_error = errno;
  }
}

NicFacts facts_of(const Root& root, const RdmaPort& port, const NetworkInterface* net) {
  NicFacts nic = net == nullptr ? NicFacts() : facts_of(*net);
  nic.name = port.port == 1 ? port.device : fmt::format("{}:{}", port.device, port.port);
  nic.rdma = port.device;
  nic.netdev = port.netdev;
  nic.link_layer = port.link_layer;
  nic.state = port.state;
  nic.phys_state = port.phys_state;
  nic.rate = port.rate;
  nic.mbit_per_s = port.mbit_per_s;
  nic.mtu = port.mtu;
  nic.network = network_of(port);
  for (const RdmaGid& gid : port.gids)
    nic.gids.push_back({gid.index, std::string(name(gid.kind)), gid.ip, gid.usable});
  nic.is_virtual_function = port.is_virtual_function;
  nic.usable = port.usable;
  nic.reason = port.reason;
  nic.driver = port.driver;
  nic.pci.address = port.pci;
  nic.pci.node = port.numa_node;
  if (nic.kind.empty()) nic.kind = port.pci.empty() ? "" : "infiniband";
  const fs::path device = root.sys() / "class/infiniband" / port.device;
  nic.firmware = text(device / "fw_ver");
  nic.board = text(device / "board_id");
  if (nic.board.empty()) nic.board = text(device / "hca_type");
  find_device_file(root, nic);
  return nic;
}

void complete(const Root& root, const std::vector<Route>& routes, NicFacts& nic, HostFacts& facts) {
  const int node = nic.pci.node;
  if (!nic.pci.address.empty()) nic.pci = read_pci(root, nic.pci.address).facts;
  if (nic.pci.node < 0) nic.pci.node = node;
  read_ethernet(root, nic);
  nic.is_routed = std::ranges::any_of(routes, [&nic](const Route& route) {
    return route.netdev == nic.netdev && route.has_gateway;
  });
  const bool is_deep = nic.is_card() && !nic.pci.address.empty() && !nic.is_virtual_function;
  if (is_deep && !nic.rdma.empty() && nic.pci.relaxed_ordering < 0) {
    facts.not_checked.push_back({"relaxed ordering of " + nic.name,
                                 "only root may read the configuration of " + nic.pci.address});
  }
  if (is_deep && (nic.pci.links.empty() || nic.pci.links.front().gbit_per_s() <= 0)) {
    facts.not_checked.push_back({"the PCI link of " + nic.name,
                                 "the kernel does not tell its rate, as in virtual machines"});
  }
  if (is_deep && nic.is_roce() && nic.usable && nic.pfc < 0 && nic.ecn < 0)
    facts.not_checked.push_back({"PFC and ECN of " + nic.name, "its driver tells neither"});
  if (!nic.driver.empty() && is_deep) {
    std::string told = text(root.sys() / "module" / nic.driver / "version");
    if (!told.empty()) facts.versions["driver " + nic.driver] = told;
  }
}

struct Counted {
  const char* folder;
  std::vector<const char*> names;
};
const std::array<Counted, 2>& port_counters() {
  static const std::array<Counted, 2> kCounters{
      Counted{"counters",
              {"symbol_error", "link_downed", "link_error_recovery", "port_rcv_errors",
               "local_link_integrity_errors", "port_xmit_discards"}},
      Counted{
          "hw_counters",
          {"out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rx_icrc_encapsulated"}}};
  return kCounters;
}

}  // namespace

void read_nics(const Root& root, HostFacts& facts) {
  const std::vector<Route> routes = routes_of(root);
  const std::vector<InterfaceAddress> addresses = addresses_of(root, routes);
  std::vector<NetworkInterface> nets = discover_interfaces(root.sys(), addresses);
  const RdmaSources sources{root.sys(), root.path / "dev", addresses};
  for (const RdmaPort& port : discover_rdma_ports(sources)) {
    const auto net = std::ranges::find(nets, port.netdev, &NetworkInterface::name);
    facts.nics.push_back(facts_of(root, port, net == nets.end() ? nullptr : &*net));
    if (net != nets.end()) nets.erase(net);
  }
  if (facts.nics.empty())
    facts.not_checked.push_back({"RDMA ports", "there is none: " + why_no_rdma(sources)});
  // What the kernel makes up counts while it leads out, or would if it were up.
  for (const NetworkInterface& net : nets) {
    const bool is_local = net.kind == "loopback" || net.kind == "bridge" || net.kind == "dummy";
    if (net.is_card() || net.usable || (!is_local && !net.ip.empty()))
      facts.nics.push_back(facts_of(net));
  }
  if (const std::string why = why_unreadable("class/net", root.sys()); !why.empty())
    facts.not_checked.push_back({"network interfaces", why});
  for (NicFacts& nic : facts.nics) complete(root, routes, nic, facts);
}

Look read_counters(const Root& root, const HostFacts& facts) {
  Look look;
  for (const NicFacts& nic : facts.nics) {
    auto& counters = look.counters[nic.name];
    const std::size_t colon = nic.name.find(':');
    const std::string port = colon == std::string::npos ? "1" : nic.name.substr(colon + 1);
    const fs::path folder = root.sys() / "class/infiniband" / nic.rdma / "ports" / port;
    for (const auto& [kind, names] : port_counters()) {
      for (const char* name : names)
        if (const auto count = number(folder / kind / name); !nic.rdma.empty() && count)
          counters[name] = *count;
    }
    const fs::path netdev = root.sys() / "class/net" / nic.netdev;
    for (const char* name : {"carrier_down_count", "statistics/rx_crc_errors"}) {
      if (const auto count = number(netdev / name); !nic.netdev.empty() && count)
        counters[fs::path(name).filename()] = *count;
    }
    if (counters.empty()) look.counters.erase(nic.name);
  }
  return look;
}

}  // namespace weft::diagnosis
