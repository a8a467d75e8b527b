// What people should know of a machine beside its devices.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "topology/hardware/hardware.h"

namespace weft {
namespace {

// By node, the devices that are taken to be on it.
std::vector<std::string> assumed_in(const Machine& machine) {
  std::map<int, std::vector<std::string>> on_node;
  for (const Gpu& gpu : machine.gpus) {
    if (gpu.place.is_node_assumed)
      on_node[gpu.place.numa_node].push_back(fmt::format("GPU {}", gpu.index));
  }
  for (const Nic& nic : machine.nics) {
    if (nic.place.is_node_assumed) on_node[nic.place.numa_node].push_back(nic.name());
  }
  const std::string_view why = machine.nodes.size() == 1
                                   ? "the only one there is"
                                   : "where NCCL puts what it does not find on PCI";
  std::vector<std::string> phrases;
  for (const auto& [node, names] : on_node)
    phrases.push_back(fmt::format("{} on node {}, {}", fmt::join(names, ", "), node, why));
  return phrases;
}

std::vector<std::string> narrowed_in(const Machine& machine) {
  std::vector<std::string> phrases;
  for (const Nic& nic : machine.nics) {
    const int carried = carried_mbit_per_s(nic);
    if (carried == nic.mbit_per_s) continue;
    phrases.push_back(fmt::format("{} to {:.4g} of its {:.4g} Gbit/s", nic.name(), carried / 1e3,
                                  nic.mbit_per_s / 1e3));
  }
  return phrases;
}

}  // namespace

std::vector<Remark> remarks_on(const Machine& machine) {
  std::vector<Remark> remarks{{"taken to be", assumed_in(machine)},
                              {"slowed down by PCI", narrowed_in(machine)},
                              {"added", machine.added},
                              {"left out", machine.left_out}};
  std::erase_if(remarks, [](const Remark& remark) { return remark.phrases.empty(); });
  return remarks;
}

}  // namespace weft
