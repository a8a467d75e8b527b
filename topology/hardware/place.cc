// How near two places on PCI are, from the bridges that their ways have in common.
#include <algorithm>
#include <limits>

#include "topology/hardware/hardware.h"

namespace weft {
namespace {

// "0000:3b:00" of "0000:3b:00.1": the card.
std::string_view card(std::string_view address) {
  return address.substr(0, address.rfind('.'));
}

std::size_t common_bridges(const PciPlace& a, const PciPlace& b) {
  if (a.host_bridge.empty() || a.host_bridge != b.host_bridge) return 0;
  const auto ends =
      std::ranges::mismatch(a.bridges, b.bridges, {}, &PciBridge::address, &PciBridge::address);
  return static_cast<std::size_t>(ends.in1 - a.bridges.begin());
}

// The slowest link on the way up from a device to its first `common` bridges; nothing if one of
// them is unknown.
double slowest_link(const PciPlace& place, std::size_t common) {
  double slowest = place.gbyte_per_s;
  for (std::size_t i = common; i < place.bridges.size(); ++i)
    slowest = std::min(slowest, place.bridges[i].gbyte_per_s);
  return slowest;
}

struct NodeOf {
  int index;    // -1: unknown
  int package;  // -1: unknown
};

Nearness between_nodes(NodeOf a, NodeOf b) {
  if (a.index >= 0 && a.index == b.index) return Nearness::numa_node;
  const bool is_one_package = a.package >= 0 && a.package == b.package;
  return is_one_package ? Nearness::package : Nearness::machine;
}

Nearness nearness_of(const PciPlace& a, const PciPlace& b, std::size_t common) {
  if (!a.address.empty() && card(a.address) == card(b.address)) return Nearness::same_device;
  if (common != 0) {
    // Below one switch a device has at most the port of its own above it.
    const bool near = a.bridges.size() - common <= 1 && b.bridges.size() - common <= 1;
    return near ? Nearness::one_switch : Nearness::switches;
  }
  if (!a.host_bridge.empty() && a.host_bridge == b.host_bridge) return Nearness::host_bridge;
  return between_nodes({a.numa_node, a.package}, {b.numa_node, b.package});
}

}  // namespace

Distance distance(const PciPlace& a, const PciPlace& b) {
  const std::size_t common = common_bridges(a, b);
  Distance found;
  found.nearness = nearness_of(a, b, common);
  found.gbyte_per_s = std::min(slowest_link(a, common), slowest_link(b, common));
  // The lowest common one is crossed too, unless there is none.
  const std::size_t crossed = a.bridges.size() + b.bridges.size() - 2 * common + (common != 0);
  found.bridges = found.nearness == Nearness::same_device ? 0 : static_cast<int>(crossed);
  return found;
}

Nearness distance(const PciPlace& device, const NumaNode& node) {
  return between_nodes({device.numa_node, device.package}, {node.index, node.package});
}

const NumaNode* node_of(const Machine& machine, int processor) {
  const auto node = std::ranges::find_if(machine.nodes, [processor](const NumaNode& each) {
    return std::ranges::binary_search(each.processors, processor);
  });
  return node == machine.nodes.end() ? nullptr : &*node;
}

Nearness distance(const PciPlace& device, const Machine& machine, int processor) {
  const NumaNode* node = node_of(machine, processor);
  return node == nullptr ? Nearness::machine : distance(device, *node);
}

std::string_view name(Nearness nearness) {
  switch (nearness) {
    case Nearness::same_device:
      return "SAME";
    case Nearness::one_switch:
      return "PIX";
    case Nearness::switches:
      return "PXB";
    case Nearness::host_bridge:
      return "PHB";
    case Nearness::numa_node:
      return "NODE";
    case Nearness::package:
      return "PKG";
    case Nearness::machine:
      return "SYS";
  }
  return "SYS";
}

std::string_view description(Nearness nearness) {
  switch (nearness) {
    case Nearness::same_device:
      return "functions of one card";
    case Nearness::one_switch:
      return "below one PCI switch";
    case Nearness::switches:
      return "across PCI switches, below one root port";
    case Nearness::host_bridge:
      return "below one host bridge";
    case Nearness::numa_node:
      return "on one NUMA node, across host bridges";
    case Nearness::package:
      return "on one package, across NUMA nodes";
    case Nearness::machine:
      return "across NUMA nodes";
  }
  return {};
}

std::string_view name(GpuLinkKind kind) {
  return kind == GpuLinkKind::xgmi ? "xGMI" : "NVLink";
}

std::string Nic::name() const {
  if (rdma.empty()) return netdev;
  return port == 1 ? rdma : rdma + ":" + std::to_string(port);
}

}  // namespace weft
