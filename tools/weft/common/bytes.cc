// Powers of 1024, read and written.
#include "tools/weft/common/bytes.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>

namespace weft {

Result<std::size_t> bytes_from(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  constexpr std::string_view kUnits = "KMG";
  const std::size_t power = unit.empty() ? 0 : kUnits.find(unit[0]) + 1;
  if (error != std::errc() || unit.size() > 1 || (!unit.empty() && power == 0) ||
      number > std::numeric_limits<std::size_t>::max() >> (10 * power)) {
    return Status(
        Code::invalid_argument,
        fmt::format(
            "'{}' is no size: expected a number of bytes, or one with K, M or G (4096, 64K, 1M)",
            text));
  }
  return number << (10 * power);
}

Result<std::size_t> bytes_of(std::string_view option, std::string_view text) {
  Result<std::size_t> bytes = bytes_from(text);
  if (bytes.ok()) return bytes;
  return Status(bytes.status().code(), fmt::format("{}: {}", option, bytes.status().text()));
}

std::string bytes_text(std::size_t bytes) {
  constexpr std::array kUnits = {"", "K", "M", "G"};
  std::size_t power = 0;
  while (power + 1 < kUnits.size() && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++power;
  }
  return fmt::format("{}{}", bytes, kUnits[power]);
}

}  // namespace weft
