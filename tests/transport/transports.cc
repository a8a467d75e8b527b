// The list of transports under test.
#include "tests/transport/transports.h"

#include "verbs/shm/shm.h"

namespace weft {

const std::vector<TransportFactory>& transports() {
  static const std::vector<TransportFactory> all = {
      {"shm", open_shm},
  };
  return all;
}

}  // namespace weft
