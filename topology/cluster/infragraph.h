// infragraph: systems as InfraGraph describes them (github.com/Keysight/infragraph, schema 3.1), in JSON. Internal to the
// module.
#pragma once

#include <string>

#include "topology/cluster/cluster.h"

namespace weft {

[[nodiscard]] bool is_infragraph(const std::string& text);
// `name` stands for the file in complaints.
[[nodiscard]] Result<Cluster> read_infragraph(const std::string& text, const std::string& name);

}  // namespace weft
