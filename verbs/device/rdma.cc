// RDMA ports: /sys/class/infiniband/DEVICE/ports/N.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "verbs/device/device.h"
#include "verbs/device/gid_bytes.h"
#include "verbs/device/gid_table.h"
#include "verbs/device/sysfs.h"
#include "verbs/device/uverbs.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using device::number;
using device::text;

// Of an InfiniBand address, that the subnet manager gives to all ports of its fabric.
constexpr int kSubnetPrefixBits = 64;

// "4: ACTIVE" and its like without the number.
std::string word(const fs::path& path) {
  const std::string line = text(path);
  const std::size_t colon = line.find(": ");
  return colon == std::string::npos ? line : line.substr(colon + 2);
}

// "2.5 Gb/sec (1X SDR)" is 2500.
int mbit_of(const std::string& rate) {
  double gbit = 0;
  const auto [stop, error] = std::from_chars(rate.data(), rate.data() + rate.size(), gbit);
  const bool is_rate = error == std::errc{} && std::string_view(stop).starts_with(" Gb/sec") &&
                       gbit > 0 && gbit < 1e6;
  return is_rate ? static_cast<int>(std::lround(gbit * 1e3)) : -1;
}

// Whoever has the addresses; empty: not told.
std::string netdev_in(const std::vector<RdmaGid>& gids) {
  const auto told =
      std::ranges::find_if(gids, [](const RdmaGid& gid) { return !gid.netdev.empty(); });
  return told == gids.end() ? std::string() : told->netdev;
}

// Else who shares the card, for which drivers count from 0; else what Soft-RoCE was laid over.
std::string netdev_beside(const fs::path& device, const RdmaPort& port) {
  for (const fs::path& netdev : device::entries(device / "device" / "net")) {
    if (number(netdev / "dev_port", 0) == port.port - 1) return netdev.filename();
  }
  return text(device / "parent");
}

bool is_bonded(const fs::path& netdev) {
  return device::is_there(netdev / "bonding") || device::is_there(netdev / "master" / "bonding");
}

std::string state_fault(const RdmaPort& port, const RdmaSources& from) {
  if (port.state == "ACTIVE") return {};
  std::string reason = "state is " + (port.state.empty() ? "unknown" : port.state);
  if (port.link_layer == "InfiniBand") {
    return reason + (port.state == "DOWN" ? ": cable or switch port"
                                          : ": no subnet manager has set it up (opensm)");
  }
  const std::string cause =
      port.netdev.empty() ? std::string() : device::netdev_fault(port.netdev, from);
  return reason + ": " + (cause.empty() ? "cable, switch port or network interface" : cause);
}

std::string address_fault(const RdmaPort& port, const RdmaSources& from) {
  const std::string netdev = port.netdev.empty() ? "its network interface" : port.netdev;
  if (port.gids.empty()) return "has no address (GID): give " + netdev + " one (ip addr add)";
  if (std::ranges::any_of(port.gids, &RdmaGid::usable)) return {};
  const bool is_up = !port.netdev.empty() && device::netdev_fault(port.netdev, from).empty();
  if (is_up && std::ranges::all_of(port.gids, &RdmaGid::link_local))
    return "has only the address (GID) that the card made: give " + netdev +
           " an IP address (ip addr add)";
  return "none of its addresses (GIDs) is usable: " + port.gids.back().reason;
}

// The first thing that keeps every queue pair of this port from working, or nothing.
std::string fault(const RdmaPort& port, const std::string& node_type, const RdmaSources& from) {
  if (!node_type.empty() && node_type != "CA")
    return "is of kind " + node_type + ", whose connections are not InfiniBand's or RoCE's";
  if (std::string down = state_fault(port, from); !down.empty()) return down;
  if (std::string none = address_fault(port, from); !none.empty()) return none;
  return device::access_fault(port.device, from);
}

// Of an InfiniBand port that is down nobody knows the address.
bool lacks_only_carrier(const RdmaPort& port, const std::string& node_type,
                        const RdmaSources& from) {
  return (node_type.empty() || node_type == "CA") &&
         std::ranges::any_of(port.gids, &RdmaGid::lacks_carrier) &&
         device::access_fault(port.device, from).empty();
}

void judge(RdmaPort& port, const std::string& node_type, const RdmaSources& from) {
  port.reason = fault(port, node_type, from);
  port.usable = port.reason.empty();
  port.lacks_carrier = !port.usable && lacks_only_carrier(port, node_type, from);
  if (!port.usable) return;
  port.reason = "is active";
  const bool is_near = std::ranges::none_of(
      port.gids, [](const RdmaGid& gid) { return gid.usable && !gid.link_local; });
  if (is_near && port.link_layer == "Ethernet")
    port.reason +=
        "; link-local addresses only: give its network interface another to get "
        "beyond its Ethernet segment";
}

void read_device(RdmaPort& port, const fs::path& device) {
  const fs::path parent = device / "device";
  port.device = device.filename();
  port.node_guid = text(device / "node_guid");
  port.driver = device::target_name(parent / "driver");
  port.pci = device::pci_address(parent);
  port.numa_node = number(parent / "numa_node", -1);
  port.physical_function = device::pci_address(parent / "physfn");
  port.is_virtual_function = !port.physical_function.empty() || device::is_there(parent / "physfn");
}

// All but what the addresses tell.
RdmaPort bare_port(const fs::path& device, const fs::path& folder) {
  RdmaPort port;
  read_device(port, device);
  port.port = device::number_in(folder.filename().string(), 1);
  port.link_layer = text(folder / "link_layer");
  port.state = word(folder / "state");
  port.phys_state = word(folder / "phys_state");
  port.rate = text(folder / "rate");
  port.mbit_per_s = mbit_of(port.rate);
  if (port.link_layer == "InfiniBand") {
    port.lid = number(folder / "lid", -1);
    port.sm_lid = number(folder / "sm_lid", -1);
  }
  return port;
}

void settle_netdev(RdmaPort& port, std::string netdev, const fs::path& device,
                   const fs::path& sys) {
  port.netdev = netdev.empty() ? netdev_beside(device, port) : std::move(netdev);
  if (port.netdev.empty()) return;
  const fs::path folder = sys / "class" / "net" / port.netdev;
  port.mtu = number(folder / "mtu", 0);
  port.is_bonded = is_bonded(folder);
}

RdmaPort port_of(const fs::path& device, const fs::path& folder, const RdmaSources& from) {
  RdmaPort port = bare_port(device, folder);
  RdmaAnswers told;
  if (from.driver) told = from.driver(port.device, port.port);
  if (from.driver && told.fault.empty()) {
    port.gids = std::move(told.gids);
    port.packet_bytes = told.packet_bytes;
  } else {
    port.gids = device::read_gids(folder, port.link_layer, from);
  }
  settle_netdev(port, netdev_in(port.gids), device, from.sys);
  judge(port, word(device / "node_type"), from);
  if (told.fault.empty()) return port;
  if (port.usable) port.reason = told.fault;
  port.usable = port.lacks_carrier = false;
  return port;
}

void for_each_port(const fs::path& sys,
                   const std::function<void(const fs::path&, const fs::path&)>& call) {
  for (const fs::path& device : device::entries(sys / "class" / "infiniband")) {
    for (const fs::path& folder : device::entries(device / "ports")) call(device, folder);
  }
}

}  // namespace

// Of several the first by a rule that knows no places of the table: hosts that were given the same
// addresses in another order agree.
std::string network_of(const RdmaPort& port) {
  std::optional<std::pair<bool, std::string>> first;  // IPv6 comes after IPv4
  for (const RdmaGid& gid : port.gids) {
    if (!gid.usable && !gid.lacks_carrier) continue;
    if (gid.kind == GidKind::infiniband) return device::subnet_text(gid.bytes, kSubnetPrefixBits);
    if (gid.kind != GidKind::roce_v2 || gid.link_local || gid.prefix_bits < 0) continue;
    std::pair found(!device::is_ipv4(gid.bytes), subnet_of(gid));
    if (!first || found < *first) first = std::move(found);
  }
  return first ? first->second : std::string();
}

std::vector<RdmaPort> list_rdma_ports(const std::string& sys) {
  std::vector<RdmaPort> found;
  for_each_port(sys, [&](const fs::path& device, const fs::path& folder) {
    RdmaPort port = bare_port(device, folder);
    settle_netdev(port, device::first_netdev(folder), device, sys);
    found.push_back(std::move(port));
  });
  return found;
}

std::vector<RdmaPort> discover_rdma_ports(const RdmaSources& from) {
  std::vector<RdmaPort> found;
  for_each_port(from.sys, [&](const fs::path& device, const fs::path& folder) {
    found.push_back(port_of(device, folder, from));
  });
  return found;
}

std::vector<RdmaPort> discover_rdma_ports() {
  RdmaSources here;
  here.addresses = interface_addresses();
  return discover_rdma_ports(here);
}

}  // namespace weft
