// What a machine's source does not say, where a plan would need it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "topology/hardware/hardware.h"

namespace weft {
namespace {

std::string name_of(const Nic& nic) {
  return nic.name();
}

std::string name_of(const Gpu& gpu) {
  return fmt::format("GPU {}", gpu.index);
}

template <typename Device, typename Lacks>
void name_those(std::vector<std::string>& into, std::string_view what,
                const std::vector<Device>& devices, Lacks lacks) {
  std::vector<std::string> names;
  for (const Device& device : devices) {
    if (lacks(device)) names.push_back(name_of(device));
  }
  if (!names.empty()) into.push_back(fmt::format("{} of {}", what, fmt::join(names, ", ")));
}

}  // namespace

std::vector<std::string> unknown_in(const Machine& machine) {
  std::vector<std::string> unknown = machine.unreadable;
  const bool is_one_node = machine.nodes.size() == 1;
  const auto is_nowhere = [is_one_node](const auto& device) {
    return !is_one_node && device.place.numa_node < 0;
  };
  name_those(unknown, "the rate", machine.nics, [](const Nic& nic) { return nic.mbit_per_s <= 0; });
  name_those(unknown, "the NUMA node", machine.nics, is_nowhere);
  name_those(unknown, "the NUMA node", machine.gpus, is_nowhere);
  name_those(unknown, "the place on PCI", machine.gpus,
             [](const Gpu& gpu) { return gpu.place.host_bridge.empty(); });
  if (machine.gpus.size() > 1 && !machine.are_gpu_links_known)
    unknown.emplace_back("whether NVLink or xGMI connects the GPUs");
  const auto has_no_rate = [](const GpuLink& link) { return link.gbyte_per_s <= 0; };
  if (std::ranges::any_of(machine.gpu_links, has_no_rate))
    unknown.emplace_back("the rate of links between GPUs");
  return unknown;
}

}  // namespace weft
