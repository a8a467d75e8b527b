// Recognizes a BCube, and the level of its edges. Internal to the module.
#pragma once

#include <weft/graph.h>

#include <optional>

namespace weft {

// The shape if the graph is a BCube of two levels or more. (One level is just a fully connected
// graph.)
[[nodiscard]] std::optional<BcubeShape> bcube_shape(const Graph& graph);
// The digit in which two ranks differ; 0 is the lowest. -1 unless they differ in exactly one.
[[nodiscard]] int bcube_level(BcubeShape shape, Rank a, Rank b);

}  // namespace weft
