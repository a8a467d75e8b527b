// A build without UCX has nothing to add.
#include "tests/transport/transports.h"

namespace weft {

void add_ucx(std::vector<TransportFactory>&) {}

}  // namespace weft
