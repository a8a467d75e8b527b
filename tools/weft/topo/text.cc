// A machine as lines of text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "scheduler/stripes/stripes.h"
#include "tools/weft/topo/devices.h"
#include "tools/weft/topo/topo.h"

namespace weft {
namespace {

constexpr int kMostRanksTold = 8;

std::string on_pci(const PciPlace& place) {
  return place.address.empty()
             ? ""
             : fmt::format(" [{}{}]", place.address, rate_text(place.gbyte_per_s));
}

// What a device hangs on, from the node down. A bridge with one device below says nothing.
std::vector<std::string> ancestors(const ShownDevice& device, const std::vector<ShownDevice>& all) {
  const PciPlace& place = *device.place;
  std::vector<std::string> names;
  if (!place.host_bridge.empty()) names.push_back(fmt::format("host bridge {}", place.host_bridge));
  for (std::size_t depth = 0; depth < place.bridges.size(); ++depth) {
    const PciBridge& bridge = place.bridges[depth];
    const auto below = std::ranges::count_if(all, [&](const ShownDevice& other) {
      return other.place->bridges.size() > depth &&
             other.place->bridges[depth].address == bridge.address;
    });
    if (below > 1)
      names.push_back(fmt::format("bridge {}{}", bridge.address, rate_text(bridge.gbyte_per_s)));
  }
  return names;
}

std::string tree_below(int node, const std::vector<ShownDevice>& all) {
  std::string text;
  std::vector<std::string> open;
  for (const ShownDevice& device : all) {
    if (device.node != node) continue;
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

// In files of NCCL's no node has cores, but processors.
bool is_memory_only(const NumaNode& node, const Machine& machine) {
  return node.processors.empty() && machine.cores > 0;
}

std::string tree(const Machine& machine) {
  const std::vector<ShownDevice> all = devices_of(machine);
  std::string text;
  for (const NumaNode& node : machine.nodes) {
    const std::string cores = node.cores > 0                  ? fmt::format("{} cores", node.cores)
                              : is_memory_only(node, machine) ? "no cores"
                                                              : "cores unknown";
    const std::string memory =
        node.bytes > 0 ? fmt::format("{} GiB", node.bytes >> 30) : "memory unknown";
    text += fmt::format("node {}: {}, {}", node.index, cores, memory);
    if (node.package >= 0) text += fmt::format(", package {}", node.package);
    if (!node.processors.empty())
      text += fmt::format(", processors {}", ranges_text(node.processors));
    text += "\n";
    text += tree_below(node.index, all);
  }
  const std::string nowhere = tree_below(-1, all);
  return nowhere.empty() ? text : text + "on no node that is known\n" + nowhere;
}

std::string links(const Machine& machine) {
  std::string text;
  for (const GpuLink& link : machine.gpu_links) {
    text += fmt::format(
        "GPU {} to {}: {} {} lanes{}\n", link.gpu,
        link.peer == GpuLink::kSwitch ? "the NVSwitch" : fmt::format("GPU {}", link.peer),
        link.lanes, name(link.kind), rate_text(link.gbyte_per_s));
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

// How many threads the engine gives a rank for large operations, for usual numbers of ranks.
std::string lanes(const Machine& machine) {
  int cores = 0;
  for (const NumaNode& node : machine.nodes) {
    const auto processors = static_cast<int>(node.processors.size());
    cores += processors > 0 ? processors : std::max(node.cores, 0);
  }
  if (cores == 0) return "";
  const auto wires = static_cast<int>(std::ranges::count_if(
      machine.nics, [&machine](const Nic& nic) { return !is_counted_elsewhere(nic, machine); }));
  std::vector<std::string> counts;
  for (int ranks = 1; ranks <= std::min(cores, kMostRanksTold); ranks *= 2) {
    const int near = wires / ranks;
    counts.push_back(
        fmt::format("{} of {}", automatic_lanes(near, ranks, cores),
                    ranks == 1 ? "a rank alone" : fmt::format("each of {} ranks", ranks)));
  }
  return fmt::format("\nlanes: {} (WEFT_LANES)\n", fmt::join(counts, ", "));
}

}  // namespace

std::string machine_text(const Machine& machine) {
  std::string text = fmt::format("{}: {}\n", machine.source, summary_of(machine));
  if (!machine.caches.empty()) text += fmt::format("caches: {}\n", caches_text(machine));
  text += tree(machine) + links(machine) + matrix(machine) + lanes(machine);
  if (const std::vector<std::string> unknown = unknown_in(machine); !unknown.empty())
    text += fmt::format("\nunknown: {} (of devices, --correct FILE says it)\n",
                        fmt::join(unknown, "; "));
  for (const Remark& remark : remarks_on(machine))
    text += fmt::format("\n{}: {}\n", remark.about, fmt::join(remark.phrases, "; "));
  return text;
}

}  // namespace weft
