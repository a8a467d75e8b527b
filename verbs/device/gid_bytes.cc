// Addresses to text and back.
#include "verbs/device/gid_bytes.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>

namespace weft {
namespace device {

std::string ip_text(const GidBytes& bytes) {
  std::array<char, INET6_ADDRSTRLEN> out{};
  const bool short_form = is_ipv4(bytes);
  inet_ntop(short_form ? AF_INET : AF_INET6, bytes.data() + (short_form ? kIpv4At : 0), out.data(),
            out.size());
  return out.data();
}

std::string subnet_text(const GidBytes& bytes, int prefix_bits) {
  const int kept = prefix_bits + (is_ipv4(bytes) ? 96 : 0);
  GidBytes network = bytes;
  for (int bit = kept; bit < 128; ++bit) {
    auto& byte = network[static_cast<std::size_t>(bit / 8)];
    byte = static_cast<std::uint8_t>(byte & ~(0x80 >> (bit % 8)));
  }
  return ip_text(network) + '/' + std::to_string(prefix_bits);
}

std::optional<GidBytes> parse_ip(const std::string& text) {
  std::array<std::uint8_t, 4> four{};
  if (inet_pton(AF_INET, text.c_str(), four.data()) == 1) return from_ipv4(four.data());
  GidBytes bytes{};
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return bytes;
  return {};
}

GidBytes from_ipv4(const std::uint8_t* four) {
  GidBytes bytes{};
  bytes[10] = bytes[11] = 0xff;
  std::copy_n(four, 4, bytes.begin() + kIpv4At);
  return bytes;
}

}  // namespace device

Result<GidAddress> parse_gid(const std::string& text, GidKind kind) {
  const std::size_t slash = text.find('/');
  const auto bytes = device::parse_ip(text.substr(0, slash));
  if (!bytes || *bytes == GidBytes{})
    return Status(Code::invalid_argument,
                  "'" + text +
                      "' is no address: expected 10.0.0.1, fe80::1 or a GID, each with "
                      "/PREFIX or without");
  GidAddress address{.bytes = *bytes, .kind = kind};
  if (slash == std::string::npos) return address;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, address.prefix_bits);
  const int width = device::is_ipv4(*bytes) ? 32 : 128;
  if (error != std::errc{} || stop != end || address.prefix_bits < 0 || address.prefix_bits > width)
    return Status(Code::invalid_argument, "'" + text + "': expected a prefix from 0 to " +
                                              std::to_string(width) + " after the slash");
  return address;
}

}  // namespace weft
