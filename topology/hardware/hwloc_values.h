// hwloc_values: the attributes of hwloc's objects that Weft lets through to hwloc, and what may
// stand in them. Internal to the module; pure.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "topology/hardware/xml.h"

namespace weft::hardware {

// hwloc keeps a bit for each number below the highest, in every object.
inline constexpr std::int64_t kMostHwlocIndex = 8191;

// The format of a file, by its version: 1, 2 or 3.
enum class HwlocFormat : std::uint8_t { first, second, third };

enum class HwlocValue : std::uint8_t {
  text,
  number,
  set,
  rate,
  bridge,
  address,
  buses,
  ids,
  os_device,
};

struct HwlocAttribute {
  const char* name;
  HwlocValue kind;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();  // of a number
};

// Others are left out.
[[nodiscard]] std::span<const HwlocAttribute> hwloc_attributes();
// Whether a rate is one. Another is left out: it does not make the file wrong.
[[nodiscard]] bool is_hwloc_rate(std::string_view text);
// Whether the object's attribute, which it has, is of its kind.
[[nodiscard]] Status check_value(const XmlFile& file, HwlocFormat format, pugi::xml_node object,
                                 const HwlocAttribute& attribute);
// A value that was checked, as the second format has it.
[[nodiscard]] std::string in_second_format(HwlocFormat format, const HwlocAttribute& attribute,
                                           std::string_view value);

}  // namespace weft::hardware
