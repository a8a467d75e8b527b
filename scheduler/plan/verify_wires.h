// verify_wires: which out-edge is which in-edge. Internal to the verifier.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/plan/plan.h"

namespace weft::verifier {

// wires[r][e]: the index of rank r's out-edge e among its peer's in-edges.
using Wires = std::vector<std::vector<std::uint32_t>>;

// Fails, naming the edge, when one of its ends does not have it.
[[nodiscard]] Result<Wires> connect(std::span<const Planned> programs);

}  // namespace weft::verifier
