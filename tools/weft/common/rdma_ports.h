// The RDMA ports of this machine. The drivers describe them if the build has libibverbs' headers;
// otherwise sysfs does.
#pragma once

#include <vector>

#include "verbs/device/device.h"

namespace weft {

[[nodiscard]] std::vector<RdmaPort> rdma_ports();

}  // namespace weft
