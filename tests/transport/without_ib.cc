// A build without libibverbs' headers has nothing to test of RDMA.
#include "tests/transport/transports.h"

namespace weft {

std::optional<TransportFactory> ib_over(const Devices&) {
  return std::nullopt;
}

}  // namespace weft
