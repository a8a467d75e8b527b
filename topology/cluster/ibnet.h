// ibnet: InfiniBand networks as `ibnetdiscover` prints them. Internal to the module.
#pragma once

#include <string>

#include "topology/cluster/cluster.h"

namespace weft {

[[nodiscard]] bool is_ibnet(const std::string& text);
// `name` stands for the file in complaints.
[[nodiscard]] Result<Cluster> read_ibnet(const std::string& text, const std::string& name);

}  // namespace weft
