// What a machine's source did not tell, where a plan would need it.
#include <fmt/format.h>
#include <fmt/ranges.h>

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
void tell(std::vector<std::string>& into, std::string_view what, const std::vector<Device>& devices,
          Lacks lacks) {
  std::vector<std::string> names;
  for (const Device& device : devices) {
    if (lacks(device)) names.push_back(name_of(device));
  }
  if (!names.empty()) into.push_back(fmt::format("{} of {}", what, fmt::join(names, ", ")));
}

}  // namespace

std::vector<std::string> unknown_in(const Machine& machine) {
  std::vector<std::string> unknown = machine.untold;
  const bool is_one_node = machine.nodes.size() == 1;
  const auto is_nowhere = [is_one_node](const auto& device) {
    return !is_one_node && device.place.numa_node < 0;
  };
  tell(unknown, "the rate", machine.nics, [](const Nic& nic) { return nic.mbit_per_s <= 0; });
  tell(unknown, "the NUMA node", machine.nics, is_nowhere);
  tell(unknown, "the NUMA node", machine.gpus, is_nowhere);
  tell(unknown, "the place on PCI", machine.gpus,
       [](const Gpu& gpu) { return gpu.place.host_bridge.empty(); });
  if (machine.gpus.size() > 1 && !machine.are_gpu_links_told)
    unknown.emplace_back("whether NVLink connects the GPUs");
  return unknown;
}

}  // namespace weft
