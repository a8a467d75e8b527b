// The ib transport alone, over the first RDMA port that can be used; where there is none every test
// fails, as this program is for machines that have one.
#include <algorithm>

#include "tests/transport/transports.h"
#include "verbs/device/device.h"
#include "verbs/ib/ib.h"

namespace weft {
namespace {

const IbOptions& first_port() {
  static const IbOptions options = [] {
    IbOptions found;
    const std::vector<RdmaPort> ports = discover_ib_ports();
    const auto usable = std::ranges::find(ports, true, &RdmaPort::usable);
    if (usable == ports.end()) return found;
    found.device = usable->device;
    found.port = usable->port;
    return found;
  }();
  return options;
}

Result<std::unique_ptr<Interface>> open_first(Rank rank, const InterfaceOptions& options,
                                              AddressResolver resolver) {
  return open_ib(rank, options, first_port(), std::move(resolver));
}

}  // namespace

const std::vector<TransportFactory>& transports() {
  static const std::vector<TransportFactory> all = {{"ib", open_first}};
  return all;
}

}  // namespace weft
