// What the edges of a graph really take. Internal to the command.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/context/context.h"

namespace weft {

// One message after another, each edge while all else rests: the median of a few, in the order of
// the edges, the same on every rank. Collective; the edges are between the context's ranks. An edge
// takes a sixth of the context's deadline, or four messages where those take longer.
[[nodiscard]] Result<std::vector<double>> measure_edges(Context& context,
                                                        const std::vector<Edge>& edges,
                                                        std::size_t bytes);

}  // namespace weft
