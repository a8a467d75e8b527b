// What the sources of machines leave to do.
#include <fmt/format.h>

#include <algorithm>

#include "topology/hardware/sources.h"
#include "verbs/device/device.h"

namespace weft::hardware {
namespace {

// A source that tells the node need not tell the package.
void complete(const std::vector<NumaNode>& nodes, PciPlace& place) {
  if (place.package >= 0) return;
  const auto node = std::ranges::find(nodes, place.numa_node, &NumaNode::index);
  if (node != nodes.end()) place.package = node->package;
}

// Where a machine has one node, every device is near it, whatever /sys or a file leaves out.
void place_on(const NumaNode& node, PciPlace& place) {
  if (place.numa_node >= 0) return;
  place.numa_node = node.index;
  place.package = node.package;
  place.is_node_assumed = true;
}

// An address on PCI is hexadecimal.
bool is_before(const std::string& a, const std::string& b) {
  return pci_address(a) && pci_address(b) ? a < b : is_listed_before(a, b);
}

}  // namespace

void settle(Machine& machine) {
  std::ranges::stable_sort(machine.nics, is_before, &Nic::name);
  std::ranges::stable_sort(machine.gpus, {}, &Gpu::index);
  for (Nic& nic : machine.nics) complete(machine.nodes, nic.place);
  for (Gpu& gpu : machine.gpus) complete(machine.nodes, gpu.place);
  if (machine.nodes.size() != 1) return;
  for (Nic& nic : machine.nics) place_on(machine.nodes.front(), nic.place);
  for (Gpu& gpu : machine.gpus) place_on(machine.nodes.front(), gpu.place);
}

Status check_names(const Machine& machine) {
  if (machine.nics.size() > kMostDevices || machine.gpus.size() > kMostDevices)
    return Status(Code::invalid_argument,
                  fmt::format("more than {} devices of a kind", kMostDevices));
  const auto nic = std::ranges::adjacent_find(machine.nics, {}, &Nic::name);
  if (nic != machine.nics.end()) {
    return Status(Code::invalid_argument,
                  fmt::format("two network interfaces are called {}", nic->name()));
  }
  const auto gpu = std::ranges::adjacent_find(machine.gpus, {}, &Gpu::index);
  if (gpu != machine.gpus.end())
    return Status(Code::invalid_argument, fmt::format("two GPUs have the index {}", gpu->index));
  return {};
}

}  // namespace weft::hardware
