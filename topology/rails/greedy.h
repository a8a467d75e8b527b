// Internal to the module: a placement to start from.
#pragma once

#include "topology/rails/rails.h"

namespace weft {

// Fills the seats machine by machine, those below one switch after each other, each with the rank
// that has the most edges with the machine so far; then with the leaf, and each switch above it;
// then with any rank placed; then the lowest. `seats`: only the first so many, at least as many as
// ranks. O(edges * log(edges)).
[[nodiscard]] Placement greedy_placement(const Cluster& cluster, const Graph& graph, int seats);

// Seats in the order in which that fills them: near each other, near in this order.
[[nodiscard]] std::vector<int> seats_by_switch(const Cluster& cluster, int seats);

}  // namespace weft
