// Machines as hwloc has them.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "topology/hardware/left_out.h"
#include "topology/hardware/pci_class.h"
#include "topology/hardware/sources.h"
#include "verbs/device/device.h"

namespace weft::hardware {
namespace {

int cores_in(const Topology& topology, hwloc_obj_t object) {
  return topology.count_in(object->cpuset, HWLOC_OBJ_CORE);
}

std::vector<CacheLevel> caches_of(const Topology& topology) {
  std::vector<CacheLevel> caches;
  for (const hwloc_obj_type_t type :
       {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE}) {
    const int count = topology.count(type);
    if (count == 0) continue;
    hwloc_obj_t first = topology.first(type);
    caches.push_back({static_cast<int>(first->attr->cache.depth), first->attr->cache.size, count,
                      cores_in(topology, first)});
  }
  return caches;
}

// The package that has all of the object's cores.
int package_of(const Topology& topology, hwloc_obj_t object) {
  hwloc_obj_t package = nullptr;
  while ((package = topology.next(HWLOC_OBJ_PACKAGE, package)) != nullptr) {
    if (object->cpuset != nullptr &&
        topology.hwloc().bitmap_is_included(object->cpuset, package->cpuset) != 0)
      return static_cast<int>(package->logical_index);
  }
  return -1;
}

std::vector<int> processors_in(const Topology& topology, hwloc_obj_t object) {
  std::vector<int> processors;
  for (int i = -1; (i = topology.hwloc().bitmap_next(object->cpuset, i)) >= 0;)
    processors.push_back(i);
  return processors;
}

// Processors belong to one node: of those that have them, the smallest, and of equal ones the first.
// The others are memory only.
void leave_processors_to_one(std::vector<NumaNode>& nodes) {
  std::vector<NumaNode*> by_size;
  for (NumaNode& node : nodes) by_size.push_back(&node);
  std::ranges::stable_sort(by_size, {},
                           [](const NumaNode* node) { return node->processors.size(); });
  std::set<int> taken;
  for (NumaNode* node : by_size) {
    const bool has_own =
        std::ranges::any_of(node->processors, [&taken](int one) { return !taken.contains(one); });
    if (!has_own) {
      node->cores = 0;
      node->processors.clear();
    }
    taken.insert(node->processors.begin(), node->processors.end());
  }
}

std::vector<NumaNode> nodes_of(const Topology& topology) {
  std::vector<NumaNode> nodes;
  hwloc_obj_t node = nullptr;
  while ((node = topology.next(HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    nodes.push_back({static_cast<int>(node->os_index), node->attr->numanode.local_memory,
                     cores_in(topology, node), package_of(topology, node),
                     processors_in(topology, node)});
  }
  leave_processors_to_one(nodes);
  return nodes;
}

std::string info(hwloc_obj_t object, const char* key) {
  const char* text = object != nullptr ? hwloc_obj_get_info_by_name(object, key) : nullptr;
  return text != nullptr ? text : "";
}

std::string address_of(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& device) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", device.domain, device.bus, device.dev,
                     device.func);
}

PciIdentity identity_of(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& device) {
  return {device.class_id, device.vendor_id, device.device_id, device.linkspeed};
}

// The node that has the object's processors. Several may: a GPU's memory is a node with the processors
// of its package (Grace, POWER9), and so are fast memory and memory expanders. The smallest counts, of
// equal ones the first. -1: the object has processors of several nodes.
int node_of(const Topology& topology, hwloc_obj_t object) {
  const Hwloc& hwloc = topology.hwloc();
  if (object->nodeset != nullptr && hwloc.bitmap_weight(object->nodeset) == 1)
    return hwloc.bitmap_first(object->nodeset);
  hwloc_obj_t nearest = nullptr;
  hwloc_obj_t node = nullptr;
  while ((node = topology.next(HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    if (hwloc.bitmap_is_zero(object->cpuset) != 0 ||
        hwloc.bitmap_is_included(object->cpuset, node->cpuset) == 0)
      continue;
    if (nearest == nullptr ||
        hwloc.bitmap_weight(node->cpuset) < hwloc.bitmap_weight(nearest->cpuset))
      nearest = node;
  }
  return nearest == nullptr ? -1 : static_cast<int>(nearest->os_index);
}

PciPlace place_of(const Topology& topology, hwloc_obj_t device) {
  PciPlace place;
  place.address = address_of(device->attr->pcidev);
  place.gbyte_per_s = device->attr->pcidev.linkspeed;
  for (hwloc_obj_t up = device->parent; up != nullptr && up->type == HWLOC_OBJ_BRIDGE;
       up = up->parent) {
    const hwloc_obj_attr_u::hwloc_bridge_attr_s& bridge = up->attr->bridge;
    if (bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) {
      place.bridges.push_back(
          {address_of(bridge.upstream.pci), static_cast<double>(bridge.upstream.pci.linkspeed)});
    } else {
      place.host_bridge = fmt::format("{:04x}:{:02x}", bridge.downstream.pci.domain,
                                      bridge.downstream.pci.secondary_bus);
    }
  }
  std::ranges::reverse(place.bridges);
  hwloc_obj_t near = device;
  while (near != nullptr && near->cpuset == nullptr) near = near->parent;
  if (near == nullptr) return place;
  place.numa_node = node_of(topology, near);
  place.package = package_of(topology, near);
  return place;
}

// The devices of the operating system below a PCI device: names by kind, in order.
std::vector<std::string> names_below(hwloc_obj_t device, hwloc_obj_osdev_type_t kind) {
  std::vector<std::string> names;
  for (hwloc_obj_t io = device->io_first_child; io != nullptr; io = io->next_sibling) {
    if (io->type == HWLOC_OBJ_OS_DEVICE && io->attr->osdev.type == kind && io->name != nullptr)
      names.emplace_back(io->name);
  }
  std::ranges::sort(names, is_listed_before);
  return names;
}

// A card with one RDMA device and several network interfaces has a port for each. The result is how
// many interfaces were added.
std::size_t add_nics(const Topology& topology, hwloc_obj_t device, Machine& machine) {
  const std::vector<std::string> rdma = names_below(device, HWLOC_OBJ_OSDEV_OPENFABRICS);
  const std::vector<std::string> nets = names_below(device, HWLOC_OBJ_OSDEV_NETWORK);
  const std::size_t ports = std::max(rdma.size(), nets.size());
  for (std::size_t i = 0; i < ports; ++i) {
    Nic nic;
    if (!rdma.empty()) nic.rdma = rdma[std::min(i, rdma.size() - 1)];
    if (rdma.size() == 1) nic.port = static_cast<int>(i) + 1;
    if (i < nets.size()) nic.netdev = nets[i];
    nic.is_virtual_function = is_virtual_function(identity_of(device->attr->pcidev));
    nic.place = place_of(topology, device);
    machine.nics.push_back(std::move(nic));
  }
  return ports;
}

void add_gpu(const Topology& topology, hwloc_obj_t device, Machine& machine) {
  Gpu gpu;
  gpu.index = static_cast<int>(machine.gpus.size());
  gpu.model = info(device, "PCIDevice");
  gpu.place = place_of(topology, device);
  machine.gpus.push_back(std::move(gpu));
}

void add_device(const Topology& topology, hwloc_obj_t device, Machine& machine, LeftOut& left_out) {
  const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci = device->attr->pcidev;
  const bool has_interface = add_nics(topology, device, machine) != 0;
  switch (kind_of(identity_of(pci))) {
    case PciKind::accelerator:
      add_gpu(topology, device, machine);
      break;
    case PciKind::display:
      left_out.add("a display of the server's own, no accelerator", address_of(pci));
      break;
    case PciKind::ethernet:
    case PciKind::infiniband:
      if (!has_interface)
        left_out.add("a network card for which the system has no interface", address_of(pci));
      break;
    case PciKind::bridge:
    case PciKind::other:
      break;
  }
}

}  // namespace

Result<Topology> made(const Hwloc& hwloc) {
  hwloc_topology_t raw = nullptr;
  if (hwloc.init(&raw) != 0) return Status(Code::exhausted, "hwloc has no memory");
  Topology topology(hwloc, raw);
  hwloc.set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  hwloc.set_type_filter(raw, HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc.set_type_filter(raw, HWLOC_OBJ_MISC, HWLOC_TYPE_FILTER_KEEP_ALL);
  return topology;
}

// Without hwloc's plugin on libpciaccess: /sys tells it the same but for the names of cards, and each
// load would leave the plugin's table of those behind. Without the plugins for GPUs: they connect to
// X displays and start OpenCL and the drivers in the host's process, and nothing here needs what they
// find.
Result<Topology> load_live(const Hwloc& hwloc) {
  WEFT_ASSIGN(Topology topology, made(hwloc));
  for (const char* plugin : {"pci", "gl", "opencl", "cuda", "nvml", "rsmi", "levelzero"}) {
    (void)hwloc.set_components(topology.get(), HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, plugin);
  }
  // Then it takes what the processors say of themselves.
  if (!can_hwloc_read_processors()) {
    (void)hwloc.set_components(topology.get(), HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                               "linux:cpu");
  }
  if (hwloc.load(topology.get()) != 0)
    return Status(Code::system, "hwloc cannot read this machine's topology");
  return topology;
}

PciPlace place_of(const Topology& topology, const std::string& address) {
  hwloc_obj_t device = topology.pci_device(address.c_str());
  if (device != nullptr) return place_of(topology, device);
  PciPlace place;
  place.address = address;
  return place;
}

Machine machine_of(const Topology& topology) {
  Machine machine;
  machine.cpu = info(topology.first(HWLOC_OBJ_PACKAGE), "CPUModel");
  machine.packages = topology.count(HWLOC_OBJ_PACKAGE);
  machine.cores = topology.count(HWLOC_OBJ_CORE);
  machine.threads = topology.count(HWLOC_OBJ_PU);
  machine.caches = caches_of(topology);
  machine.nodes = nodes_of(topology);
  for (const NumaNode& node : machine.nodes) machine.memory_bytes += node.bytes;
  LeftOut left_out;
  hwloc_obj_t device = nullptr;
  while ((device = topology.next(HWLOC_OBJ_PCI_DEVICE, device)) != nullptr)
    add_device(topology, device, machine, left_out);
  machine.left_out = left_out.phrases();
  return machine;
}

}  // namespace weft::hardware
