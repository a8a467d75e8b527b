// What hwloc's XML has no place for: rates, which RDMA port is which network interface, NVLink. It is
// kept in "misc" objects below the machine, with one "information" of name and value per field, which
// every version of hwloc passes on.
#include <fmt/format.h>

#include <charconv>

#include "topology/hardware/sources.h"

namespace weft::hardware {
namespace {

constexpr const char* kNic = "weft:nic";
constexpr const char* kGpu = "weft:gpu";
constexpr const char* kLink = "weft:gpu-link";

void add(hwloc_obj_t note, const char* key, const std::string& text) {
  if (!text.empty()) hwloc_obj_add_info(note, key, text.c_str());
}

void add(hwloc_obj_t note, const char* key, double number) {
  add(note, key, fmt::format("{}", number));
}

void add(hwloc_obj_t note, const char* key, int number) {
  add(note, key, fmt::format("{}", number));
}

std::string text_of(hwloc_obj_t note, const char* key) {
  const char* text = hwloc_obj_get_info_by_name(note, key);
  return text != nullptr ? text : "";
}

template <typename Number>
Number number_of(hwloc_obj_t note, const char* key, Number otherwise) {
  const std::string text = text_of(note, key);
  Number number = otherwise;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? number : otherwise;
}

// Devices that are not on PCI have a node at most.
PciPlace place_in(hwloc_topology_t topology, hwloc_obj_t note) {
  PciPlace place;
  const std::string address = text_of(note, "pci");
  if (!address.empty()) place = place_of(topology, address);
  if (place.numa_node < 0) place.numa_node = number_of(note, "numa_node", -1);
  return place;
}

hwloc_obj_t new_note(hwloc_topology_t topology, const char* name) {
  return hwloc_topology_insert_misc_object(topology, hwloc_get_root_obj(topology), name);
}

void take_nic(hwloc_topology_t topology, hwloc_obj_t note, Machine& machine) {
  Nic nic;
  nic.rdma = text_of(note, "rdma");
  nic.port = number_of(note, "port", 1);
  nic.netdev = text_of(note, "netdev");
  nic.mbit_per_s = number_of(note, "mbit_per_s", -1);
  nic.is_virtual_function = number_of(note, "virtual_function", 0) != 0;
  nic.bond = text_of(note, "bond");
  nic.place = place_in(topology, note);
  if (!nic.name().empty()) machine.nics.push_back(std::move(nic));
}

void take_gpu(hwloc_topology_t topology, hwloc_obj_t note, Machine& machine) {
  Gpu gpu;
  gpu.index = number_of(note, "index", static_cast<int>(machine.gpus.size()));
  gpu.model = text_of(note, "model");
  gpu.memory_bytes = number_of(note, "memory_bytes", std::uint64_t{0});
  gpu.place = place_in(topology, note);
  machine.gpus.push_back(std::move(gpu));
}

void take_link(hwloc_obj_t note, Machine& machine) {
  machine.gpu_links.push_back({number_of(note, "gpu", 0), number_of(note, "peer", GpuLink::kSwitch),
                               number_of(note, "lanes", 0), number_of(note, "gbyte_per_s", 0.0)});
  machine.are_gpu_links_told = true;
}

}  // namespace

void put_notes(hwloc_topology_t topology, const Machine& machine) {
  for (const Nic& nic : machine.nics) {
    hwloc_obj_t note = new_note(topology, kNic);
    if (note == nullptr) return;
    add(note, "rdma", nic.rdma);
    add(note, "port", nic.port);
    add(note, "netdev", nic.netdev);
    add(note, "mbit_per_s", nic.mbit_per_s);
    add(note, "virtual_function", nic.is_virtual_function ? 1 : 0);
    add(note, "bond", nic.bond);
    add(note, "pci", nic.place.address);
    add(note, "numa_node", nic.place.numa_node);
  }
  for (const Gpu& gpu : machine.gpus) {
    hwloc_obj_t note = new_note(topology, kGpu);
    if (note == nullptr) return;
    add(note, "index", gpu.index);
    add(note, "model", gpu.model);
    add(note, "memory_bytes", fmt::format("{}", gpu.memory_bytes));
    add(note, "pci", gpu.place.address);
    add(note, "numa_node", gpu.place.numa_node);
  }
  for (const GpuLink& link : machine.gpu_links) {
    hwloc_obj_t note = new_note(topology, kLink);
    if (note == nullptr) return;
    add(note, "gpu", link.gpu);
    add(note, "peer", link.peer);
    add(note, "lanes", link.lanes);
    add(note, "gbyte_per_s", link.gbyte_per_s);
  }
}

bool take_notes(hwloc_topology_t topology, Machine& machine) {
  bool any = false;
  hwloc_obj_t note = nullptr;
  while ((note = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_MISC, note)) != nullptr) {
    const std::string_view kind = note->name != nullptr ? note->name : "";
    if (!kind.starts_with("weft:")) continue;
    any = true;
    if (kind == kNic) take_nic(topology, note, machine);
    if (kind == kGpu) take_gpu(topology, note, machine);
    if (kind == kLink) take_link(note, machine);
  }
  return any;
}

}  // namespace weft::hardware
