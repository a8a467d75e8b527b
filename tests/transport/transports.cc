// The transports that need no device of their own.
#include "tests/transport/transports.h"

#include "verbs/shm/shm.h"

namespace weft {

const std::vector<TransportFactory>& transports() {
  static const std::vector<TransportFactory> all = [] {
    std::vector<TransportFactory> listed = {{"shm", open_shm}};
    if (const auto ucx = ucx_over({"lo", "lo"})) listed.push_back(*ucx);
    return listed;
  }();
  return all;
}

}  // namespace weft
