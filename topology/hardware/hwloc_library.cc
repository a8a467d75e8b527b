// Loading hwloc, and its inline functions by way of the table.
#include "topology/hardware/hwloc_library.h"

#include <cstdio>

namespace weft::hardware {

Result<Hwloc> load_hwloc(const char* file) {
  Hwloc table{};
  WEFT_RETURN_IF_ERROR(DynamicLibrary(file)
                           .find("hwloc_topology_init", table.init)
                           .find("hwloc_topology_destroy", table.destroy)
                           .find("hwloc_topology_load", table.load)
                           .find("hwloc_topology_set_io_types_filter", table.set_io_types_filter)
                           .find("hwloc_topology_set_type_filter", table.set_type_filter)
                           .find("hwloc_topology_set_components", table.set_components)
                           .find("hwloc_topology_set_xmlbuffer", table.set_xmlbuffer)
                           .find("hwloc_topology_set_synthetic", table.set_synthetic)
                           .find("hwloc_topology_export_xmlbuffer", table.export_xmlbuffer)
                           .find("hwloc_free_xmlbuffer", table.free_xmlbuffer)
                           .find("hwloc_topology_insert_misc_object", table.insert_misc_object)
                           .find("hwloc_obj_add_info", table.add_info)
                           .find("hwloc_get_type_depth", table.type_depth)
                           .find("hwloc_get_nbobjs_by_depth", table.count_by_depth)
                           .find("hwloc_get_obj_by_depth", table.object_by_depth)
                           .find("hwloc_bitmap_first", table.bitmap_first)
                           .find("hwloc_bitmap_next", table.bitmap_next)
                           .find("hwloc_bitmap_weight", table.bitmap_weight)
                           .find("hwloc_bitmap_iszero", table.bitmap_is_zero)
                           .find("hwloc_bitmap_isincluded", table.bitmap_is_included)
                           .status("hwloc is missing (install libhwloc15)"));
  return table;
}

HwlocLibrary hwloc_library() {
  // Never destroyed: a static object of the host's may ask for a machine when the process ends.
  static const auto& once = *new const Result<Hwloc>(load_hwloc("libhwloc.so.15"));
  if (!once.ok()) return once.status();
  return &once.value();
}

int Topology::count(hwloc_obj_type_t type) const {
  const int depth = hwloc().type_depth(get(), type);
  if (depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE) return 0;
  return static_cast<int>(hwloc().count_by_depth(get(), depth));
}

hwloc_obj_t Topology::next(hwloc_obj_type_t type, hwloc_obj_t before) const {
  if (before != nullptr) return before->next_cousin;
  const int depth = hwloc().type_depth(get(), type);
  if (depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE) return nullptr;
  return hwloc().object_by_depth(get(), depth, 0);
}

int Topology::count_in(hwloc_const_cpuset_t set, hwloc_obj_type_t type) const {
  int count = 0;
  for (hwloc_obj_t each = first(type); each != nullptr; each = next(type, each)) {
    if (hwloc().bitmap_is_zero(each->cpuset) == 0 &&
        hwloc().bitmap_is_included(each->cpuset, set) != 0)
      ++count;
  }
  return count;
}

hwloc_obj_t Topology::pci_device(const char* address) const {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  if (std::sscanf(address, "%x:%x.%x", &bus, &device, &function) != 3 &&
      std::sscanf(address, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
    return nullptr;
  for (hwloc_obj_t each = first(HWLOC_OBJ_PCI_DEVICE); each != nullptr;
       each = next(HWLOC_OBJ_PCI_DEVICE, each)) {
    const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci = each->attr->pcidev;
    if (pci.domain == domain && pci.bus == bus && pci.dev == device && pci.func == function)
      return each;
  }
  return nullptr;
}

}  // namespace weft::hardware
