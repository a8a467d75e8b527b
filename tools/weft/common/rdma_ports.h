// The RDMA ports of this machine: as their drivers tell of them where the build has libibverbs'
// headers, else as sysfs does.
#pragma once

#include <vector>

#include "verbs/device/device.h"

namespace weft {

[[nodiscard]] std::vector<RdmaPort> rdma_ports();

}  // namespace weft
