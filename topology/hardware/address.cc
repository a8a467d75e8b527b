// Addresses on PCI as people and tools write them: nvidia-smi has eight digits of the domain, and
// capitals.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "topology/hardware/sources.h"

namespace weft::hardware {
namespace {

// Takes hexadecimal digits, `least` to `most` of them, and what follows them, from the front.
bool take_digits(std::string_view& text, std::size_t least, std::size_t most, std::string_view end,
                 unsigned& number) {
  const std::size_t digits =
      std::min(text.find_first_not_of("0123456789abcdefABCDEF"), text.size());
  if (digits < least || digits > most) return false;
  std::from_chars(text.data(), text.data() + digits, number, 16);
  text.remove_prefix(digits);
  if (!text.starts_with(end)) return false;
  text.remove_prefix(end.size());
  return true;
}

}  // namespace

std::optional<std::string> pci_address(std::string_view text) {
  constexpr unsigned kMostDevice = 0x1f, kMostFunction = 7;
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  if (!take_digits(text, 4, 8, ":", domain) || !take_digits(text, 2, 2, ":", bus) ||
      !take_digits(text, 2, 2, ".", device) || !take_digits(text, 1, 1, "", function))
    return std::nullopt;
  if (!text.empty() || device > kMostDevice || function > kMostFunction) return std::nullopt;
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, bus, device, function);
}

std::optional<std::string> pci_bus(std::string_view text) {
  unsigned domain = 0, bus = 0;
  if (!take_digits(text, 4, 8, ":", domain) || !take_digits(text, 2, 2, "", bus) || !text.empty())
    return std::nullopt;
  return fmt::format("{:04x}:{:02x}", domain, bus);
}

}  // namespace weft::hardware
