// What `weft topo` shows of a machine. Internal to the command.
#pragma once

#include <string>

#include "tools/weft/topo/abilities.h"
#include "topology/hardware/hardware.h"

namespace weft {

// The tree of nodes, host bridges, switches and devices; how near network interfaces and GPUs are
// to each other and to the nodes; what is unknown and what was left out.
[[nodiscard]] std::string machine_text(const Machine& machine);
// A picture of the same: an SVG document.
[[nodiscard]] std::string machine_svg(const Machine& machine);
// One JSON object; what the source does not say is null. `abilities`: of this machine's GPUs; null: it
// is another machine.
[[nodiscard]] std::string machine_json(const Machine& machine, const GpuAbilities* abilities);

}  // namespace weft
