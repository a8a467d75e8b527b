// uverbs: the files through which a process reaches RDMA devices. That the kernel lists a device
// does not mean that this process may use it: containers see the first and lack the second.
// Internal to the module; opens nothing, any thread may call.
#pragma once

#include <string>

#include "verbs/device/device.h"

namespace weft::device {

// Why this process cannot open the device; empty: it could.
[[nodiscard]] std::string access_fault(const std::string& device, const RdmaSources& from);

}  // namespace weft::device
