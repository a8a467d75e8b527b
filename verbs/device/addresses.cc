// IP addresses of network interfaces, which sysfs does not have.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "verbs/device/device.h"
#include "verbs/device/gid_bytes.h"

namespace weft {
namespace {

// The bytes of an IPv4 or IPv6 address, 4 or 16; none for other families.
std::span<const std::uint8_t> bytes_of(const sockaddr* address) {
  if (address == nullptr) return {};
  if (address->sa_family == AF_INET) {
    const in_addr& ip = reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    return {reinterpret_cast<const std::uint8_t*>(&ip), sizeof ip};
  }
  if (address->sa_family == AF_INET6) {
    const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    return ip.s6_addr;
  }
  return {};
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  std::vector<InterfaceAddress> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    const std::span<const std::uint8_t> ip = bytes_of(at->ifa_addr);
    const std::span<const std::uint8_t> mask = bytes_of(at->ifa_netmask);
    if (ip.empty() || mask.size() != ip.size()) continue;
    InterfaceAddress& address = found.emplace_back();
    const std::string_view label = at->ifa_name;  // "eth0:1": what `ip addr add … label` gave it
    address.netdev = label.substr(0, label.find(':'));
    if (ip.size() == 4) {
      address.bytes = device::from_ipv4(ip.data());
    } else {
      std::ranges::copy(ip, address.bytes.begin());
    }
    for (const std::uint8_t byte : mask) address.prefix_bits += std::popcount(byte);
  }
  return found;
}

}  // namespace weft
