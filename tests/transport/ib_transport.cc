// The ib transport alone, over the first RDMA port that can be used; where there is none every test
// fails, as this program is for machines that have one.
#include <algorithm>

#include "tests/transport/transports.h"
#include "verbs/ib/ib.h"

namespace weft {
namespace {

std::string first_port() {
  const std::vector<RdmaPort> ports = discover_ib_ports();
  const auto usable = std::ranges::find(ports, true, &RdmaPort::usable);
  return usable == ports.end() ? "" : usable->device + ":" + std::to_string(usable->port);
}

}  // namespace

const std::vector<TransportFactory>& transports() {
  static const std::vector<TransportFactory> all = [] {
    const std::string port = first_port();
    return std::vector<TransportFactory>{*ib_over({port, port})};
  }();
  return all;
}

}  // namespace weft
