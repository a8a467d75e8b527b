// What may stand in the attributes of hwloc's objects.
#include "topology/hardware/hwloc_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace weft::hardware {
namespace {

constexpr std::size_t kLongestSet = (kMostHwlocIndex / 32 + 1) * std::size_t{11};
constexpr double kMostGbyte = 1e6;

constexpr std::array kAttributes{
    HwlocAttribute{"type", HwlocValue::text},
    HwlocAttribute{"os_index", HwlocValue::number},
    HwlocAttribute{"cpuset", HwlocValue::set},
    HwlocAttribute{"complete_cpuset", HwlocValue::set},
    HwlocAttribute{"online_cpuset", HwlocValue::set},
    HwlocAttribute{"allowed_cpuset", HwlocValue::set},
    HwlocAttribute{"nodeset", HwlocValue::set},
    HwlocAttribute{"complete_nodeset", HwlocValue::set},
    HwlocAttribute{"allowed_nodeset", HwlocValue::set},
    HwlocAttribute{"name", HwlocValue::text},
    HwlocAttribute{"subtype", HwlocValue::text},
    HwlocAttribute{"local_memory", HwlocValue::number},
    HwlocAttribute{"cache_size", HwlocValue::number},
    HwlocAttribute{"depth", HwlocValue::number},
    HwlocAttribute{"cache_linesize", HwlocValue::number},
    HwlocAttribute{"cache_associativity", HwlocValue::text},
    HwlocAttribute{"cache_type", HwlocValue::number, 2},
    HwlocAttribute{"kind", HwlocValue::number},
    HwlocAttribute{"subkind", HwlocValue::number},
    HwlocAttribute{"dont_merge", HwlocValue::number},
    HwlocAttribute{"bridge_type", HwlocValue::bridge},
    HwlocAttribute{"bridge_pci", HwlocValue::buses},
    HwlocAttribute{"pci_busid", HwlocValue::address},
    HwlocAttribute{"pci_type", HwlocValue::ids},
    HwlocAttribute{"pci_link_speed", HwlocValue::rate},
    HwlocAttribute{"osdev_type", HwlocValue::os_device},
};

// What a device of the operating system is: a number in the first two formats, one bit for each thing
// that it is in the third. A network interface of InfiniBand is both a network and an RDMA device
// there.
constexpr std::int64_t kMostOsDevice = 6;
constexpr std::int64_t kMostOsDeviceBits = (1 << 16) - 1;
struct OsDevice {
  unsigned bit;  // of the third format
  const char* number;
};
// The most specific first; whatever else it may be, Weft takes it for storage, which it does not use.
constexpr std::array kOsDevices{OsDevice{1 << 5, "3"},   // RDMA device
                                OsDevice{1 << 4, "2"},   // network interface
                                OsDevice{1 << 3, "5"},   // co-processor
                                OsDevice{1 << 2, "1"},   // GPU
                                OsDevice{1 << 6, "4"}};  // DMA engine
constexpr const char* kStorage = "0";

std::string as_number(std::string_view bits) {
  unsigned of = 0;
  std::from_chars(bits.data(), bits.data() + bits.size(), of);
  const auto found =
      std::ranges::find_if(kOsDevices, [of](const OsDevice& each) { return (of & each.bit) != 0; });
  return found == kOsDevices.end() ? kStorage : found->number;
}

// "0x0000ffff,,0x1", "0xf...f".
bool is_set(std::string_view text) {
  return text.size() <= kLongestSet &&
         text.find_first_not_of("0123456789abcdefABCDEFx,.") == std::string_view::npos;
}

// An x of the form stands for a hexadecimal number, anything else for itself.
bool has_form(std::string_view text, std::string_view form) {
  constexpr std::size_t kMostDigits = 8;
  for (const char each : form) {
    std::size_t length = 1;
    if (each == 'x') {
      length = std::min(text.find_first_not_of("0123456789abcdefABCDEF"), text.size());
      if (length == 0 || length > kMostDigits) return false;
    } else if (text.empty() || text.front() != each) {
      return false;
    }
    text.remove_prefix(length);
  }
  return text.empty();
}

}  // namespace

std::span<const HwlocAttribute> hwloc_attributes() {
  return kAttributes;
}

bool is_hwloc_rate(std::string_view text) {
  double rate = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  return error == std::errc{} && end == text.data() + text.size() && rate >= 0 && rate < kMostGbyte;
}

Status check_value(const XmlFile& file, HwlocFormat format, pugi::xml_node at,
                   const HwlocAttribute& attribute) {
  const std::string_view value = at.attribute(attribute.name).value();
  const auto wrong = [&](std::string_view what) {
    return file.wrong(at, fmt::format("{}: {}", attribute.name, what));
  };
  switch (attribute.kind) {
    case HwlocValue::text:
      return file.text(at, attribute.name).status();
    case HwlocValue::number:
      return file.integer(at, attribute.name, 0, attribute.most, 0).status();
    case HwlocValue::set:
      return is_set(value) ? Status() : wrong("no set that hwloc could have");
    case HwlocValue::rate:  // one that is not possible is unknown
      return {};
    case HwlocValue::bridge:
      return value == "0-1" || value == "1-1" ? Status() : wrong("neither 0-1 nor 1-1");
    case HwlocValue::address:
      return has_form(value, "x:x:x.x") ? Status() : wrong("no address on PCI");
    case HwlocValue::buses:
      return has_form(value, "x:[x-x]") ? Status() : wrong("no buses on PCI");
    case HwlocValue::ids:
      return has_form(value, "x [x:x] [x:x] x") || has_form(value, "x [x:x] [x:x] x x")
                 ? Status()
                 : wrong("no class and makers on PCI");
    case HwlocValue::os_device:
      return file
          .integer(at, attribute.name, 0,
                   format == HwlocFormat::third ? kMostOsDeviceBits : kMostOsDevice, 0)
          .status();
  }
  return {};
}

std::string in_second_format(HwlocFormat format, const HwlocAttribute& attribute,
                             std::string_view value) {
  if (attribute.kind == HwlocValue::os_device && format == HwlocFormat::third)
    return as_number(value);
  // hwloc 3 writes one field more than hwloc 2 reads: the programming interface.
  if (attribute.kind == HwlocValue::ids && std::ranges::count(value, ' ') == 4)
    value = value.substr(0, value.rfind(' '));
  return std::string(value);
}

}  // namespace weft::hardware
