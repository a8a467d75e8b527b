// What the edges of a graph really take. Internal to the command.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/context/context.h"
#include "topology/cluster/cluster.h"

namespace weft {

// Are the job's ranks on the machines that the cluster has for its first seats? Machines of both
// are numbered by their lowest rank. invalid_argument names the first rank that is elsewhere: what
// an edge takes there says nothing of the way that the map has for it.
[[nodiscard]] Status check_places(const Cluster& cluster, int ranks, const Layout& job);

// One message after another, each edge while all else rests: the median of a few, in the order of
// the edges, the same on every rank. Collective; the edges are between the context's ranks. An edge
// takes a sixth of the context's deadline, or four messages where those take longer.
[[nodiscard]] Result<std::vector<double>> measure_edges(Context& context,
                                                        const std::vector<Edge>& edges,
                                                        std::size_t bytes);

}  // namespace weft
