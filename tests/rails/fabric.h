// Clusters to try, made without files.
#pragma once

#include <string>
#include <vector>

#include "topology/cluster/cluster.h"

namespace weft {

// Machines with so many ranks and network interfaces of 100 Gbit/s, and no GPU; the k-th
// interfaces of all machines are rail k.
struct FabricShape {
  int machines = 2;
  int ranks = 1;
  int rails = 1;
};
[[nodiscard]] Cluster fabric(FabricShape shape);

// The same cluster, with RDMA on its first so many rails.
[[nodiscard]] Cluster with_rdma(Cluster cluster, int rails);

// A fabric with one rail, whose leaves are oversubscribed.
struct TreeShape {
  int leaves = 4;
  int machines_per_leaf = 4;
  int ranks = 1;  // of a machine
  double oversubscription = 4;
  bool in_turn = false;  // machines 0, 1, 2, … are below leaves 0, 1, 2, …
};
[[nodiscard]] Cluster tree(TreeShape shape);

// 16 machines, two below a leaf of 2:1, two leaves below a switch of 8:1, two of these below one of
// 32:1: leaves' links upwards carry 100 Gbit/s, all others 50 and 25.
[[nodiscard]] Cluster three_levels(int stride = 1);

// machines = base ^ rails; rail l connects those that differ in digit l, and no others.
[[nodiscard]] Cluster bcube_fabric(int base, int rails);

// Machines like examples/machines/8gpu-8nic.xml, each without the interfaces of that name.
[[nodiscard]] Cluster eight_gpus(const std::vector<std::string>& absent);

}  // namespace weft
