// fabric: hosts, their interfaces and the leaf that each is linked to, made a cluster. What files that others write have in
// common. Internal to the module.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "topology/cluster/cluster.h"

namespace weft {

struct FabricInterface {
  std::string name;
  double gbit_per_s = 0;
  std::string leaf;
};
struct FabricHost {
  std::string name;
  std::vector<FabricInterface> interfaces{};
  int ranks = 1;
};
// Rail k has the k-th interface of each host. Leaves become a level of the rail where they have equally many hosts, in the
// order of the hosts. Rails that share a leaf share its links to other switches by their rates.
struct HostFabric {
  std::string source;
  std::vector<FabricHost> hosts;
  std::map<std::string, double> up_gbit_per_s;  // by leaf: its links to other switches together
  double latency_us = 2;                        // of a message, as with --like
  double level_us = 0;                          // more of one that passes the links up
};

[[nodiscard]] Cluster cluster_of(const HostFabric& fabric);

}  // namespace weft
