// Internal to the module: is a graph a BCube, and of which level is an edge?
#pragma once

#include <optional>

#include "topology/graph/graph.h"

namespace weft {

// Two levels or more; one level is a full graph like any other.
[[nodiscard]] std::optional<BcubeShape> bcube_shape(const Graph& graph);
// The digit in which two ranks differ, 0 the lowest; -1 unless there is exactly one.
[[nodiscard]] int bcube_level(BcubeShape shape, Rank a, Rank b);

}  // namespace weft
