// The ib transport alone, between the first RDMA port that can be used and another one in its subnet
// if there is any, so that bytes cross the wire; where there is no port every test fails, as this
// program is for machines that have one.
#include <algorithm>

#include "tests/transport/transports.h"
#include "verbs/ib/ib.h"

namespace weft {
namespace {

std::string name_of(const RdmaPort& port) {
  return port.device + ":" + std::to_string(port.port);
}

bool are_neighbors(const RdmaPort& a, const RdmaPort& b) {
  return std::ranges::any_of(a.gids, [&b](const RdmaGid& gid) {
    const std::string subnet = gid.usable ? subnet_of(gid) : "";
    return !subnet.empty() && std::ranges::find(b.gids, subnet, subnet_of) != b.gids.end();
  });
}

Devices ports_of_two() {
  const std::vector<RdmaPort> ports = discover_ib_ports();
  const auto first = std::ranges::find(ports, true, &RdmaPort::usable);
  if (first == ports.end()) return {};
  const auto second = std::ranges::find_if(
      std::next(first), ports.end(),
      [&](const RdmaPort& port) { return port.usable && are_neighbors(*first, port); });
  return {name_of(*first), name_of(second == ports.end() ? *first : *second)};
}

}  // namespace

const std::vector<TransportFactory>& transports() {
  static const std::vector<TransportFactory> all = [] {
    return std::vector<TransportFactory>{*ib_over(ports_of_two())};
  }();
  return all;
}

}  // namespace weft
