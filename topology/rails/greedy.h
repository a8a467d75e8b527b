// A placement from which the search can start. Internal to the module.
#pragma once

#include "topology/rails/rails.h"

namespace weft {

// Fills the seats machine by machine; machines below one switch follow each other. Each seat gets
// the rank with the most edges to the ranks already placed on the same machine. Ties are broken by
// the edges to the ranks below the same leaf, then below each higher switch, then to any rank
// placed, then by the lowest number. Only the first `seats` seats are used; there must be at least
// as many as ranks. O(edges * log(edges)).
[[nodiscard]] Placement greedy_placement(const Cluster& cluster, const Graph& graph, int seats);

// The seats in the order in which greedy_placement() fills them. Seats that are near each other in
// the cluster are near each other in this order.
[[nodiscard]] std::vector<int> seats_by_switch(const Cluster& cluster, int seats);

}  // namespace weft
