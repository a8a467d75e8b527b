// This machine: hwloc for the tree (/sys where hwloc is missing), /proc for memory, verbs/device for
// the ways out, NVML for GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "topology/hardware/sources.h"
#include "verbs/device/device.h"

namespace weft {
namespace {

using namespace hardware;

// The number after `key` in /proc/meminfo, in its own unit; 0 when it is not there.
std::uint64_t meminfo(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::uint64_t number = 0;
  while (file >> word) {
    if (word == key && file >> number) return number;
  }
  return 0;
}

// The bracketed word of "always [madvise] never".
std::string chosen(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    if (word.size() > 2 && word.front() == '[') return word.substr(1, word.size() - 2);
  }
  return {};
}

HugePageState huge_pages() {
  const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
  return {meminfo("Hugepagesize:") << 10, static_cast<int>(meminfo("HugePages_Total:")),
          static_cast<int>(meminfo("HugePages_Free:")), chosen(folder + "enabled"),
          chosen(folder + "shmem_enabled")};
}

// Where an address on PCI is.
using Places = std::function<PciPlace(const std::string& address)>;

PciPlace placed(const Places& places, const std::string& address, int numa_node) {
  PciPlace place;
  if (!address.empty()) place = places(address);
  if (place.numa_node < 0) place.numa_node = numa_node;
  return place;
}

Nic way_out(const RdmaPort& port, const Places& places) {
  Nic nic;
  nic.rdma = port.device;
  nic.port = port.port;
  nic.netdev = port.netdev;
  nic.mbit_per_s = port.mbit_per_s;
  nic.is_virtual_function = port.is_virtual_function;
  nic.physical_function = port.physical_function;
  nic.bond = port.is_bonded ? port.netdev : "";
  nic.place = placed(places, port.pci, port.numa_node);
  return nic;
}

Nic way_out(const NetworkInterface& net, const Places& places) {
  Nic nic;
  nic.netdev = net.name;
  nic.mbit_per_s = net.mbit_per_s;
  nic.is_virtual_function = net.is_virtual_function;
  nic.physical_function = net.physical_function;
  nic.bond = net.bond;
  nic.place = placed(places, net.pci, net.numa_node);
  return nic;
}

// RDMA ports with their network interfaces, then network interfaces that have no RDMA port: cards,
// whatever state they are in, and what the kernel makes up only while it leads out. What only this
// machine itself uses (bridges and their ports, its loopback) is no way out.
std::vector<Nic> ways_out(const Places& places) {
  std::vector<Nic> nics;
  std::vector<NetworkInterface> nets = discover_interfaces();
  for (const RdmaPort& port : list_rdma_ports()) {
    nics.push_back(way_out(port, places));
    const auto net = std::ranges::find(nets, port.netdev, &NetworkInterface::name);
    if (net == nets.end()) continue;
    if (!net->bond.empty()) nics.back().bond = net->bond;
    nets.erase(net);
  }
  for (const NetworkInterface& net : nets) {
    if (net.is_card() || net.usable) nics.push_back(way_out(net, places));
  }
  return nics;
}

// What all ways to look at this machine have in common.
void complete(Machine& machine, const Places& places) {
  machine.source = "this machine";
  if (machine.memory_bytes == 0) machine.memory_bytes = meminfo("MemTotal:") << 10;
  if (machine.nodes.size() == 1) machine.nodes.front().bytes = machine.memory_bytes;
  machine.huge_pages = huge_pages();
  machine.nics = ways_out(places);
  machine.left_out.clear();  // of its cards, this machine tells what they are for
  machine.unreadable = unreadable_in();
  ask_nvml(machine);
  for (Gpu& gpu : machine.gpus) gpu.place = placed(places, gpu.place.address, gpu.place.numa_node);
  settle(machine);
}

Machine machine_without_hwloc(std::string_view why) {
  Machine machine = sys_machine();
  complete(machine, [&machine](const std::string& address) { return sys_place(machine, address); });
  machine.unreadable.push_back(fmt::format("caches, because {}", why));
  return machine;
}

}  // namespace

Machine hardware::live_machine(const Topology& topology) {
  Machine machine = machine_of(topology);
  complete(machine,
           [&topology](const std::string& address) { return place_of(topology, address); });
  return machine;
}

Result<Machine> hardware::discover(const HwlocLibrary& library) {
  if (!library.ok()) return machine_without_hwloc(library.status().text());
  if (const std::string why = contradiction_in(); !why.empty()) return machine_without_hwloc(why);
  WEFT_ASSIGN(const Topology topology, load_live(**library));
  return live_machine(topology);
}

Result<Machine> discover_machine() {
  return discover(hwloc_library());
}

}  // namespace weft
