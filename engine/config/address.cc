// The text form of an address. Only the form is checked here: whether the host exists is the
// network's answer, and comes when somebody connects.
#include "engine/config/address.h"

#include <algorithm>
#include <charconv>

namespace weft {
namespace {

constexpr std::size_t kMaxHost = 253;  // the longest name that the domain name system carries

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_' || c == ':' || c == '%';
}

Status malformed(std::string_view text) {
  return Status(Code::invalid_argument, std::string(text.substr(0, kMaxHost + 10)) +
                                            ": expected host:port with a port from 1 to 65535");
}

}  // namespace

std::string Address::to_string() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<Address> parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return malformed(text);
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return malformed(text);  // a bare IPv6 number: its last group cannot be told from a port
  }
  if (host.empty() || host.size() > kMaxHost || !std::ranges::all_of(host, is_host_character)) {
    return malformed(text);
  }
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size() || port == 0) {
    return malformed(text);
  }
  return Address{std::string(host), port};
}

}  // namespace weft
