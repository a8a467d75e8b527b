// Classes and makers, by the numbers of the PCI ID database.
#include "topology/hardware/pci_class.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace weft::hardware {
namespace {

constexpr unsigned kEthernet = 0x0200, kInfiniband = 0x0207;
constexpr unsigned kVga = 0x0300, kOtherDisplay = 0x0380, k3d = 0x0302;
constexpr unsigned kBridges = 0x06;  // the base class
constexpr unsigned kAccelerator = 0x1200;
constexpr unsigned kNvidia = 0x10de, kAmd = 0x1002, kIntel = 0x8086, kAmazon = 0x1d0f,
                   kMellanox = 0x15b3, kBroadcom = 0x14e4;
// AMD's (ATI's) chips from before GPUs computed. Servers still have them as their display: ES1000,
// Rage XL.
constexpr unsigned kFirstOldAmd = 0x4000, kLastOldAmd = 0x5fff;
constexpr unsigned kFirstEfa = 0xefa0, kLastEfa = 0xefaf;
constexpr std::array<std::pair<unsigned, unsigned>, 20> kVirtualFunctions{{
    {kMellanox, 0x1004}, {kMellanox, 0x1014}, {kMellanox, 0x1016}, {kMellanox, 0x1018},
    {kMellanox, 0x101a}, {kMellanox, 0x101c}, {kMellanox, 0x101e}, {kIntel, 0x10ca},
    {kIntel, 0x10ed},    {kIntel, 0x1515},    {kIntel, 0x1520},    {kIntel, 0x154c},
    {kIntel, 0x1565},    {kIntel, 0x1889},    {kIntel, 0x37cd},    {kBroadcom, 0x1606},
    {kBroadcom, 0x16dc}, {kBroadcom, 0x16e1}, {kBroadcom, 0x16e5}, {kBroadcom, 0x1806},
}};
// A server's own display has no PCI Express link, or one lane of an early generation (0.25 to 0.5
// GB/s). An accelerator has more.
constexpr double kMostOfDisplay = 1.0;

// A file may leave the maker out, as those that clouds ship do. Then the class decides where only
// accelerators have it in practice.
PciKind kind_of_display(const PciIdentity& device) {
  if (device.vendor == kAmd && device.device >= kFirstOldAmd && device.device <= kLastOldAmd)
    return PciKind::display;
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

bool is_efa(const PciIdentity& device) {
  return device.vendor == kAmazon && device.device >= kFirstEfa && device.device <= kLastEfa;
}

bool is_virtual_function(const PciIdentity& device) {
  return std::ranges::count(kVirtualFunctions, std::pair(device.vendor, device.device)) != 0;
}

// The last two of six digits are the programming interface.
std::optional<unsigned> class_in(std::string_view text) {
  constexpr std::size_t kDigits = 8;  // with "0x"
  const std::optional<unsigned> number = hexadecimal(text);
  if (!number || text.size() != kDigits) return std::nullopt;
  return *number >> 8;
}

unsigned id_in(std::string_view text) {
  return hexadecimal(text).value_or(0);
}

}  // namespace weft::hardware
