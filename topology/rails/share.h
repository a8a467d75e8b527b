// Divides the interfaces of one machine among its ranks. Internal to the module.
#pragma once

#include <vector>

namespace weft {

// far[rank][interface] is their distance; `rates` has the rates of the interfaces. The result has
// the interfaces of each rank, ascending.
//
// Each rank gets one interface. If there are more interfaces than ranks, each rank gets an equal
// number, and those left over go one each to the ranks nearest to them, so that all are used. Among
// all choices, the interface with the most ranks per rate has as few ranks as possible. Among these
// choices, the sum of distances is smallest. Ties go to the lower number.
//
// Interfaces more than eight times slower than the fastest are not used: a message that is cut over
// all interfaces would gain less from them than their latency costs.
[[nodiscard]] std::vector<std::vector<int>> share_interfaces(
    const std::vector<std::vector<int>>& far, const std::vector<double>& rates);

// True if, among the interfaces that are fast enough to be used, one is nearer to a rank than
// another.
[[nodiscard]] bool is_one_nearer(const std::vector<std::vector<int>>& far,
                                 const std::vector<double>& rates);

}  // namespace weft
