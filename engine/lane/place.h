// place: where a lane's thread and the memory that it shares belong: beside its network
// interfaces, where these are all on one NUMA node of several, or beside those that are on the node
// where the rank works. A card that writes to another node's memory, and a thread that polls there,
// cross the link between the sockets for every message.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

struct LanePlace {
  int node = -1;           // memory is preferred here; -1: wherever the kernel puts it
  std::vector<int> cores;  // the thread runs on these alone; empty: on all that it may
  std::string reason;      // for people; empty: nothing to say, as the machine has one node
};

// The node where a lane belongs, or -1 and why none: of its interfaces' nodes (-1: not told) and
// that on which the rank works (-1: not told). Pure.
[[nodiscard]] LanePlace choose_node(std::span<const int> rail_nodes, int work_node);
// The chosen place with its cores: of the node's those `allowed` to this process, both ascending.
[[nodiscard]] LanePlace with_cores(LanePlace chosen, std::span<const int> node_cores,
                                   std::span<const int> allowed);
// Whether this machine has more than one node.
[[nodiscard]] bool has_several_nodes(const std::string& sys = "/sys");
// Both with what the kernel says of this machine; nowhere on a machine of one node.
[[nodiscard]] LanePlace place_lane_here(std::span<const int> rail_nodes, int work_node,
                                        const std::string& sys = "/sys");
// The node that has all cores on which this process may run; -1: no single one.
[[nodiscard]] int node_of_cores(const std::string& sys = "/sys");

// "0-3,8" as the kernel lists cores and nodes. What is no such list ends it.
[[nodiscard]] std::vector<int> numbers_of(std::string_view list);

// Binds the calling thread to the place's cores.
Status bind_thread(const LanePlace& place);

}  // namespace weft
