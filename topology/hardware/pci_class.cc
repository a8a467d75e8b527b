// Classes and makers, by the numbers of the PCI ID database.
#include "topology/hardware/pci_class.h"

#include <algorithm>
#include <charconv>

namespace weft::hardware {
namespace {

constexpr unsigned kEthernet = 0x0200, kInfiniband = 0x0207;
constexpr unsigned kVga = 0x0300, kOtherDisplay = 0x0380, k3d = 0x0302;
constexpr unsigned kBridges = 0x06;  // the base class
constexpr unsigned kAccelerator = 0x1200;
constexpr unsigned kNvidia = 0x10de, kAmd = 0x1002, kIntel = 0x8086, kAmazon = 0x1d0f;
constexpr unsigned kFirstEfa = 0xefa0, kLastEfa = 0xefaf;
// A server's own display has no PCI Express link, or one lane of an early generation (0.25 to 0.5
// GB/s). An accelerator has more.
constexpr double kMostOfDisplay = 1.0;

// A file may leave the maker out, as those that clouds ship do. Then the class decides where only
// accelerators have it in practice.
PciKind kind_of_display(const PciIdentity& device) {
  const bool is_gpu_maker =
      device.vendor == kNvidia || device.vendor == kAmd ||
      (device.kind == kOtherDisplay && (device.vendor == kIntel || device.vendor == 0));
  return is_gpu_maker || device.gbyte_per_s > kMostOfDisplay ? PciKind::accelerator
                                                             : PciKind::display;
}

std::optional<unsigned> hexadecimal(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

PciKind kind_of(const PciIdentity& device) {
  if (device.kind >> 8 == kBridges) return PciKind::bridge;
  switch (device.kind) {
    case k3d:
    case kAccelerator:
      return PciKind::accelerator;
    case kVga:
    case kOtherDisplay:
      return kind_of_display(device);
    case kEthernet:
      return PciKind::ethernet;
    case kInfiniband:
      return PciKind::infiniband;
    default:
      return PciKind::other;
  }
}

bool is_efa(unsigned vendor, unsigned device) {
  return vendor == kAmazon && device >= kFirstEfa && device <= kLastEfa;
}

// The last two of six digits are the programming interface.
std::optional<unsigned> class_in(std::string_view text) {
  constexpr std::size_t kDigits = 8;  // with "0x"
  const std::optional<unsigned> number = hexadecimal(text);
  if (!number || text.size() != kDigits) return std::nullopt;
  return *number >> 8;
}

unsigned vendor_in(std::string_view text) {
  return hexadecimal(text).value_or(0);
}

}  // namespace weft::hardware
