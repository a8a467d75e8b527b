// gid_bytes: what the 16 bytes of a GID mean. Internal to the module; pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "verbs/device/gid.h"

namespace weft::device {

// How IPv4 addresses are written as IPv6 ones: ten zeros, then these, then the address.
inline constexpr std::size_t kIpv4At = 12;

// ::ffff:a.b.c.d
[[nodiscard]] inline bool is_ipv4(const GidBytes& bytes) {
  return std::all_of(bytes.begin(), bytes.begin() + 10, [](auto byte) { return byte == 0; }) &&
         bytes[10] == 0xff && bytes[11] == 0xff;
}

// fe80::/10, or 169.254.0.0/16.
[[nodiscard]] inline bool is_link_local(const GidBytes& bytes) {
  if (is_ipv4(bytes)) return bytes[kIpv4At] == 169 && bytes[kIpv4At + 1] == 254;
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

// "10.0.0.1", or IPv6 as short as it can be.
[[nodiscard]] std::string ip_text(const GidBytes& bytes);
// "10.0.0.0/24". The prefix must be one that such an address can have.
[[nodiscard]] std::string subnet_text(const GidBytes& bytes, int prefix_bits);
// ip_text the other way round; nothing where it is no address. GIDs as sysfs writes them are IPv6.
[[nodiscard]] std::optional<GidBytes> parse_ip(const std::string& text);
[[nodiscard]] GidBytes from_ipv4(const std::uint8_t* four);

}  // namespace weft::device
