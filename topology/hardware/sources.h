// What the sources of a Machine share. Internal to the module.
#pragma once

#include <hwloc.h>

#include <memory>
#include <type_traits>

#include "topology/hardware/hardware.h"

namespace weft::hardware {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, Destroy>;

// hwloc.cc
// Loaded with PCI devices and bridges; of this machine, an XML text, or a synthetic string. `name`
// stands for it in errors.
[[nodiscard]] Result<Topology> load_live();
[[nodiscard]] Result<Topology> load_xml(const std::string& text, const std::string& name);
[[nodiscard]] Result<Topology> load_synthetic(const std::string& text);
// All that hwloc knows.
[[nodiscard]] Machine machine_of(hwloc_topology_t topology);
// Where "0000:3b:00.0" sits; hwloc may not know it.
[[nodiscard]] PciPlace place_of(hwloc_topology_t topology, const std::string& address);

// notes.cc: what hwloc's format has no place for, as objects of its kind "misc".
void put_notes(hwloc_topology_t topology, const Machine& machine);
// Takes them out again; false where there are none, and hwloc's own devices have to do.
[[nodiscard]] bool take_notes(hwloc_topology_t topology, Machine& machine);

// nccl.cc
[[nodiscard]] Result<Machine> parse_nccl(const std::string& text, const std::string& name);

// nvml.cc: GPUs and NVLink of this machine, where NVIDIA's library is.
void ask_nvml(Machine& machine);

}  // namespace weft::hardware
