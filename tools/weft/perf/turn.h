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
// Opens an interface of each network transport of this build, without a peer, and turns it. Shared
// memory is left out: a lane takes no turn for it. The UCX interface is that of the loopback device,
// the RDMA interface that of the first port.
[[nodiscard]] std::vector<IdleTurn> idle_turns();

}  // namespace weft
