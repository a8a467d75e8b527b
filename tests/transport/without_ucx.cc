// A build without UCX has nothing to test of it.
#include "tests/transport/transports.h"

namespace weft {

std::optional<TransportFactory> ucx_over(const Devices&) {
  return std::nullopt;
}

}  // namespace weft
