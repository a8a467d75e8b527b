// The functions of hwloc, loaded at run time: a host without it still starts, and only its headers
// are needed to build. Internal to the module.
//
// hwloc's inline functions call the library by name. Topology has the ones that are needed, by way
// of the table.
#pragma once

#include <hwloc.h>

#include <memory>
#include <type_traits>

#include "verbs/base/base.h"

namespace weft::hardware {

struct Hwloc {
  decltype(&hwloc_topology_init) init;
  decltype(&hwloc_topology_destroy) destroy;
  decltype(&hwloc_topology_load) load;
  decltype(&hwloc_topology_set_io_types_filter) set_io_types_filter;
  decltype(&hwloc_topology_set_type_filter) set_type_filter;
  decltype(&hwloc_topology_set_components) set_components;
  decltype(&hwloc_topology_set_xmlbuffer) set_xmlbuffer;
  decltype(&hwloc_topology_set_synthetic) set_synthetic;
  decltype(&hwloc_topology_export_xmlbuffer) export_xmlbuffer;
  decltype(&hwloc_free_xmlbuffer) free_xmlbuffer;
  decltype(&hwloc_topology_insert_misc_object) insert_misc_object;
  decltype(&hwloc_obj_add_info) add_info;
  decltype(&hwloc_get_type_depth) type_depth;
  decltype(&hwloc_get_nbobjs_by_depth) count_by_depth;
  decltype(&hwloc_get_obj_by_depth) object_by_depth;
  decltype(&hwloc_bitmap_first) bitmap_first;
  decltype(&hwloc_bitmap_next) bitmap_next;
  decltype(&hwloc_bitmap_weight) bitmap_weight;
  decltype(&hwloc_bitmap_iszero) bitmap_is_zero;
  decltype(&hwloc_bitmap_isincluded) bitmap_is_included;
};

// The table; or `unavailable`, with what is missing and what to install.
using HwlocLibrary = Result<const Hwloc*>;
// Made at the first use; it lives as long as the process.
[[nodiscard]] HwlocLibrary hwloc_library();
// From a file of that name; tests give one that is not there.
[[nodiscard]] Result<Hwloc> load_hwloc(const char* file);

// A machine in hwloc's memory.
class Topology {
 public:
  Topology(const Hwloc& hwloc, hwloc_topology_t owned) : owned_(owned, Destroy{&hwloc}) {}

  [[nodiscard]] hwloc_topology_t get() const { return owned_.get(); }
  [[nodiscard]] const Hwloc& hwloc() const { return *owned_.get_deleter().hwloc; }

  [[nodiscard]] hwloc_obj_t root() const { return hwloc().object_by_depth(get(), 0, 0); }
  // Of objects that are all at one depth; others count as none.
  [[nodiscard]] int count(hwloc_obj_type_t type) const;
  [[nodiscard]] hwloc_obj_t first(hwloc_obj_type_t type) const { return next(type, nullptr); }
  // The one after `before`, which may be null for the first; null after the last.
  [[nodiscard]] hwloc_obj_t next(hwloc_obj_type_t type, hwloc_obj_t before) const;
  // Those of the type whose processors are all in the set.
  [[nodiscard]] int count_in(hwloc_const_cpuset_t set, hwloc_obj_type_t type) const;
  // By "0000:3b:00.0" or "3b:00.0"; null: hwloc does not know it.
  [[nodiscard]] hwloc_obj_t pci_device(const char* address) const;

 private:
  struct Destroy {
    const Hwloc* hwloc;
    void operator()(hwloc_topology_t topology) const { hwloc->destroy(topology); }
  };
  std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, Destroy> owned_;
};

}  // namespace weft::hardware
