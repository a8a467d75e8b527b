// What the sources of machines leave to do.
#include <fmt/format.h>

#include <algorithm>

#include "topology/hardware/sources.h"

namespace weft::hardware {
namespace {

// Where a machine has one node, every device is near it, whatever /sys or a file leaves out.
void place_on(const NumaNode& node, PciPlace& place) {
  if (place.numa_node >= 0) return;
  place.numa_node = node.index;
  place.package = node.package;
  place.is_node_assumed = true;
}

}  // namespace

void settle(Machine& machine) {
  std::ranges::stable_sort(machine.nics, {}, &Nic::name);
  std::ranges::stable_sort(machine.gpus, {}, &Gpu::index);
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
