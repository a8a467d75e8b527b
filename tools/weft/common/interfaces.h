// What WEFT_INTERFACES says, for commands that show interfaces. Internal to the commands.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "verbs/device/device.h"

namespace weft {

// By name, in the user's order; empty: all that can be used.
[[nodiscard]] inline std::vector<std::string> named_interfaces(const Config& config) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < config.interfaces.size();) {
    const std::size_t end = std::min(config.interfaces.find(',', begin), config.interfaces.size());
    names.push_back(config.interfaces.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

// "mlx5_0", "mlx5_0:2".
[[nodiscard]] inline std::string interface_name(const RdmaPort& port) {
  return port.port == 1 ? port.device : port.device + ":" + std::to_string(port.port);
}

}  // namespace weft
