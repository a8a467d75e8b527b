// Where something listens: a host (name or number) and a TCP port. A value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "verbs/base/base.h"

namespace weft {

struct Address {
  std::string host;
  std::uint16_t port = 0;

  // "host:port", with an IPv6 number in brackets: what parse_address() reads.
  [[nodiscard]] std::string to_string() const;
};

// Reads "host:port" or "[ipv6]:port"; the port is 1 … 65535. Does not ask any name server.
[[nodiscard]] Result<Address> parse_address(std::string_view text);

}  // namespace weft
