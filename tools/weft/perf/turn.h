// What a lane that has nothing to do pays for each look at a network. Internal to the command.
#pragma once

#include <string>
#include <vector>

namespace weft {

struct IdleTurn {
  std::string transport;  // "ucx", "ib"
  double ns = 0;          // of one Interface::progress()
  std::string why_not;    // empty: it was measured
};
// For each network transport of this build: opens two interfaces, connects them, and turns one of
// them while nothing comes. Shared memory is left out, because a lane takes no turn for it. UCX has
// the loopback device, RDMA the first port.
[[nodiscard]] std::vector<IdleTurn> idle_turns();

}  // namespace weft
