// Internal to the module: the interfaces of one machine, shared out to its ranks.
#pragma once

#include <vector>

namespace weft {

// far[rank][interface]: how far apart they are; rates: of the interfaces. Each rank gets one
// interface, or, where there are more of them than ranks, as many as there are for each; those left
// over go one each to the ranks nearest to them, so that all are used. Result by rank, ascending.
// Interfaces that are more than eight times slower than the fastest get nobody: a message cut over
// all would gain less than their latency costs.
// First, the interface with the most ranks per rate has as few as can be; then, the sum of distances
// is least; ties go to the lower number.
[[nodiscard]] std::vector<std::vector<int>> share_interfaces(
    const std::vector<std::vector<int>>& far, const std::vector<double>& rates);

// Whether some interface fit for a share is nearer to a rank than another one.
[[nodiscard]] bool is_one_nearer(const std::vector<std::vector<int>>& far,
                                 const std::vector<double>& rates);

}  // namespace weft
