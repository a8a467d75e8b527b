// place: the NUMA node for a lane's thread and for the memory that it shares. If all network
// interfaces of the rank are on one node, the lane belongs there. Else it belongs to the node where
// the rank works, if an interface is on it. A network card that writes to another node's memory, or
// a thread that polls there, crosses the link between the sockets for every message.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

struct LanePlace {
  int node = -1;           // where memory is preferred; -1: wherever the kernel puts it
  std::vector<int> cores;  // on which the thread runs; empty: on all that it may use
  std::string reason;      // for people; empty: no networks, or the machine has one node
};

// Chooses the node for a lane from the nodes of its interfaces and the node on which the rank works
// (-1: unknown). If there is none, node is -1 and the reason says why. Pure.
[[nodiscard]] LanePlace choose_node(std::span<const int> rail_nodes, int work_node);
// Adds the cores to a chosen place: those of the node that are `allowed` to this process. Both
// lists are ascending.
[[nodiscard]] LanePlace with_cores(LanePlace chosen, std::span<const int> node_cores,
                                   std::span<const int> allowed);
// Whether this machine has more than one node.
[[nodiscard]] bool has_several_nodes(const std::string& sys = "/sys");
// choose_node() and with_cores() with what the kernel says of this machine. On a machine of one
// node the place is empty.
[[nodiscard]] LanePlace place_lane_here(std::span<const int> rail_nodes, int work_node,
                                        const std::string& sys = "/sys");
// The node that has all cores on which this process may run; -1: they are on several nodes.
[[nodiscard]] int node_of_cores(const std::string& sys = "/sys");

// Binds the calling thread to the place's cores.
Status bind_thread(const LanePlace& place);

}  // namespace weft
