// A machine as lines of text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "tools/weft/topo.h"

namespace weft {
namespace {

struct Device {
  std::string name;
  std::string detail;
  const PciPlace* place;
};

std::string rate(double gbyte_per_s) {
  return gbyte_per_s > 0 ? fmt::format(", {:.1f} GB/s", gbyte_per_s) : "";
}

std::string detail_of(const Nic& nic) {
  std::string text = nic.rdma.empty() || nic.netdev.empty() ? "" : fmt::format(" ({})", nic.netdev);
  text += nic.mbit_per_s > 0 ? fmt::format(": {} Gbit/s", nic.mbit_per_s / 1e3) : ": rate unknown";
  if (nic.is_virtual_function) text += ", virtual function";
  if (!nic.bond.empty()) text += fmt::format(", part of {}", nic.bond);
  return text;
}

std::string detail_of(const Gpu& gpu) {
  std::string text = gpu.model.empty() ? "" : ": " + gpu.model;
  if (gpu.memory_bytes != 0) text += fmt::format(", {} GiB", gpu.memory_bytes >> 30);
  return text;
}

std::string on_pci(const PciPlace& place) {
  return place.address.empty() ? ""
                               : fmt::format(" [{}{}]", place.address, rate(place.gbyte_per_s));
}

std::vector<Device> devices_of(const Machine& machine) {
  std::vector<Device> devices;
  for (const Gpu& gpu : machine.gpus)
    devices.push_back({fmt::format("GPU {}", gpu.index), detail_of(gpu), &gpu.place});
  for (const Nic& nic : machine.nics) devices.push_back({nic.name(), detail_of(nic), &nic.place});
  const auto where = [](const Device& device) {
    return std::tie(device.place->numa_node, device.place->host_bridge, device.place->address);
  };
  std::ranges::stable_sort(devices, {}, where);
  return devices;
}

// What a device hangs on, from the node down. A bridge with one device below says nothing.
std::vector<std::string> ancestors(const Device& device, const std::vector<Device>& all) {
  const PciPlace& place = *device.place;
  std::vector<std::string> names;
  if (!place.host_bridge.empty()) names.push_back(fmt::format("host bridge {}", place.host_bridge));
  for (std::size_t depth = 0; depth < place.bridges.size(); ++depth) {
    const PciBridge& bridge = place.bridges[depth];
    const auto below = std::ranges::count_if(all, [&](const Device& other) {
      return other.place->bridges.size() > depth &&
             other.place->bridges[depth].address == bridge.address;
    });
    if (below > 1)
      names.push_back(fmt::format("bridge {}{}", bridge.address, rate(bridge.gbyte_per_s)));
  }
  return names;
}

std::string tree_below(int node, const std::vector<Device>& all) {
  std::string text;
  std::vector<std::string> open;
  for (const Device& device : all) {
    if (device.place->numa_node != node) continue;
    const std::vector<std::string> path = ancestors(device, all);
    const auto common = std::ranges::mismatch(open, path).in2 - path.begin();
    for (auto depth = static_cast<std::size_t>(common); depth < path.size(); ++depth)
      text += fmt::format("{:{}}{}\n", "", 2 + 2 * depth, path[depth]);
    open = path;
    text += fmt::format("{:{}}{}{}{}\n", "", 2 + 2 * path.size(), device.name, device.detail,
                        on_pci(*device.place));
  }
  return text;
}

std::string tree(const Machine& machine) {
  const std::vector<Device> all = devices_of(machine);
  std::string text;
  for (const NumaNode& node : machine.nodes) {
    text += fmt::format("node {}: {} cores, {} GiB\n", node.index, node.cores, node.bytes >> 30);
    text += tree_below(node.index, all);
  }
  const std::string nowhere = tree_below(-1, all);
  return nowhere.empty() ? text : text + "on no node that is known\n" + nowhere;
}

std::string links(const Machine& machine) {
  std::string text;
  for (const GpuLink& link : machine.gpu_links) {
    text += fmt::format(
        "GPU {} to {}: {} NVLink lanes{}\n", link.gpu,
        link.peer == GpuLink::kSwitch ? "the NVSwitch" : fmt::format("GPU {}", link.peer),
        link.lanes, rate(link.gbyte_per_s));
  }
  return text;
}

// Network interfaces down, GPUs and nodes across.
std::string matrix(const Machine& machine) {
  if (machine.nics.empty()) return "";
  std::size_t width = 0;
  for (const Nic& nic : machine.nics) width = std::max(width, nic.name().size());
  std::string text = fmt::format("\n{:{}}", "", width);
  for (const Gpu& gpu : machine.gpus)
    text += fmt::format("  {:>6}", fmt::format("GPU {}", gpu.index));
  for (const NumaNode& node : machine.nodes)
    text += fmt::format("  {:>7}", fmt::format("node {}", node.index));
  text += "\n";
  for (const Nic& nic : machine.nics) {
    text += fmt::format("{:<{}}", nic.name(), width);
    for (const Gpu& gpu : machine.gpus)
      text += fmt::format("  {:>6}", name(distance(nic.place, gpu.place).nearness));
    for (const NumaNode& node : machine.nodes)
      text += fmt::format("  {:>7}", name(distance(nic.place, node)));
    text += "\n";
  }
  return text;
}

}  // namespace

std::string machine_text(const Machine& machine) {
  std::string text = fmt::format("{}: {}{} package(s), {} cores, {} hardware threads\n",
                                 machine.source, machine.cpu.empty() ? "" : machine.cpu + ", ",
                                 machine.packages, machine.cores, machine.threads);
  text += tree(machine) + links(machine) + matrix(machine);
  const std::vector<std::string> unknown = unknown_in(machine);
  if (!unknown.empty())
    text += fmt::format("\nnot told: {} (--correct FILE says it)\n", fmt::join(unknown, "; "));
  return text;
}

}  // namespace weft
