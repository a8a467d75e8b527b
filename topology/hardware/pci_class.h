// pci_class: what a PCI device is, from what every source of machines has of it: its class, its
// maker, and the rate of its link. Internal to the module; pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft::hardware {

enum class PciKind : std::uint8_t {
  accelerator,  // a GPU, or another processor of its own
  display,      // shows the server's console, as its management processor or hypervisor does
  ethernet,
  infiniband,
  bridge,
  other,
};

struct PciIdentity {
  unsigned kind = 0;       // base class and subclass: 0x0302 of class 0x030200
  unsigned vendor = 0;     // 0: unknown
  unsigned device = 0;     // the maker's number; 0: unknown
  double gbyte_per_s = 0;  // of its link; 0: unknown, or not on PCI Express
};

[[nodiscard]] PciKind kind_of(const PciIdentity& device);
// Amazon's EFA is an RDMA device, although its class is that of Ethernet.
[[nodiscard]] bool is_efa(const PciIdentity& device);
// Whether the maker numbers virtual functions of network cards so. Files do not tell it otherwise.
[[nodiscard]] bool is_virtual_function(const PciIdentity& device);

// "0x030200" as sysfs and NCCL write a class: base class and subclass; nothing where it is none.
[[nodiscard]] std::optional<unsigned> class_in(std::string_view text);
// "0x10de", of a maker or a device; 0 where it is none.
[[nodiscard]] unsigned id_in(std::string_view text);

}  // namespace weft::hardware
