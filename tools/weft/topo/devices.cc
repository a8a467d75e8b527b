// Devices of a machine as they are shown.
#include "tools/weft/topo/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace weft {
namespace {

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

bool comes_before(const ShownDevice& left, const ShownDevice& right) {
  const PciPlace &a = *left.place, &b = *right.place;
  const auto top = [](const ShownDevice& device) {
    return std::tie(device.node, device.place->host_bridge);
  };
  if (top(left) != top(right)) return top(left) < top(right);
  const auto [in_a, in_b] =
      std::ranges::mismatch(a.bridges, b.bridges, {}, &PciBridge::address, &PciBridge::address);
  const std::string& next_a = in_a == a.bridges.end() ? a.address : in_a->address;
  const std::string& next_b = in_b == b.bridges.end() ? b.address : in_b->address;
  return next_a < next_b;
}

int node_in(const Machine& machine, const PciPlace& place) {
  const bool is_known = std::ranges::count(machine.nodes, place.numa_node, &NumaNode::index) != 0;
  return is_known ? place.numa_node : -1;
}

}  // namespace

std::string amount_text(std::uint64_t bytes) {
  const auto kib = static_cast<double>(bytes) / 1024;
  if (kib < 1024) return fmt::format("{:.0f} KiB", kib);
  if (kib < 1024 * 1024) return fmt::format("{:.4g} MiB", kib / 1024);
  return fmt::format("{:.4g} GiB", kib / 1024 / 1024);
}

std::string caches_text(const Machine& machine) {
  std::string text;
  for (const CacheLevel& cache : machine.caches) {
    text += fmt::format("{}{} x L{} {}", text.empty() ? "" : ", ", cache.count, cache.level,
                        amount_text(cache.bytes));
    if (cache.cores_each > 1) text += fmt::format(" ({} cores each)", cache.cores_each);
  }
  return text;
}

std::string ranges_text(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    for (end = begin + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[begin]);
    if (end - begin > 1) text += fmt::format("-{}", numbers[end - 1]);
  }
  return text;
}

std::string rate_text(double gbyte_per_s) {
  return gbyte_per_s > 0 ? fmt::format(", {:.1f} GB/s", gbyte_per_s) : "";
}

std::vector<ShownDevice> devices_of(const Machine& machine) {
  std::vector<ShownDevice> devices;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    const Gpu& gpu = machine.gpus[i];
    devices.push_back({fmt::format("GPU {}", gpu.index), detail_of(gpu), &gpu.place, true, i,
                       node_in(machine, gpu.place)});
  }
  for (std::size_t i = 0; i < machine.nics.size(); ++i) {
    const Nic& nic = machine.nics[i];
    devices.push_back(
        {nic.name(), detail_of(nic), &nic.place, false, i, node_in(machine, nic.place)});
  }
  std::ranges::stable_sort(devices, comes_before);
  return devices;
}

std::string summary_of(const Machine& machine) {
  const std::string cores =
      machine.cores > 0
          ? fmt::format("{} cores, {} hardware threads", machine.cores, machine.threads)
      : machine.threads > 0 ? fmt::format("{} hardware threads", machine.threads)
                            : "cores unknown";
  return fmt::format("{}{} package(s), {}", machine.cpu.empty() ? "" : machine.cpu + ", ",
                     machine.packages, cores);
}

}  // namespace weft
