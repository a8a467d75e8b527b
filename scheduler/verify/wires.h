// verify_wires: connects each out-edge with the in-edge at its other end. Internal to the verifier.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/plan/plan.h"

namespace weft::verifier {

// wires[r][e]: the index of rank r's out-edge e among its peer's in-edges.
using Wires = std::vector<std::vector<std::uint32_t>>;

// An error names an edge that only one of its ends has.
[[nodiscard]] Result<Wires> connect(std::span<const Planned> programs);

}  // namespace weft::verifier
