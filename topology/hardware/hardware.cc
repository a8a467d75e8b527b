// hwloc for the topology, /proc and /sys for what it does not know.
#include "topology/hardware/hardware.h"

#include <hwloc.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <type_traits>

namespace weft {
namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, Destroy>;

Result<Topology> load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return Status(Code::exhausted, "hwloc has no memory");
  Topology topology(raw);
  if (hwloc_topology_load(raw) != 0) {
    return Status(Code::system, "hwloc cannot read this machine's topology");
  }
  return topology;
}

int count_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  return std::max(hwloc_get_nbobjs_by_type(topology, type), 0);
}

int cores_in(hwloc_topology_t topology, hwloc_obj_t object) {
  return hwloc_get_nbobjs_inside_cpuset_by_type(topology, object->cpuset, HWLOC_OBJ_CORE);
}

std::vector<CacheLevel> caches_of(hwloc_topology_t topology) {
  std::vector<CacheLevel> caches;
  for (const hwloc_obj_type_t type :
       {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE}) {
    const int count = count_of(topology, type);
    if (count == 0) continue;
    hwloc_obj_t first = hwloc_get_obj_by_type(topology, type, 0);
    caches.push_back({static_cast<int>(first->attr->cache.depth), first->attr->cache.size, count,
                      cores_in(topology, first)});
  }
  return caches;
}

std::vector<NumaNode> nodes_of(hwloc_topology_t topology) {
  std::vector<NumaNode> nodes;
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    nodes.push_back({static_cast<int>(node->os_index), node->attr->numanode.local_memory,
                     cores_in(topology, node)});
  }
  return nodes;
}

std::string cpu_model(hwloc_topology_t topology) {
  hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
  const char* model =
      package != nullptr ? hwloc_obj_get_info_by_name(package, "CPUModel") : nullptr;
  return model != nullptr ? model : "unknown";
}

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

}  // namespace

Result<Machine> discover_machine() {
  WEFT_ASSIGN(const Topology topology, load_topology());
  Machine machine;
  machine.cpu = cpu_model(topology.get());
  machine.packages = count_of(topology.get(), HWLOC_OBJ_PACKAGE);
  machine.cores = count_of(topology.get(), HWLOC_OBJ_CORE);
  machine.threads = count_of(topology.get(), HWLOC_OBJ_PU);
  machine.caches = caches_of(topology.get());
  machine.nodes = nodes_of(topology.get());
  machine.memory_bytes = meminfo("MemTotal:") << 10;
  machine.huge_pages = huge_pages();
  return machine;
}

}  // namespace weft
