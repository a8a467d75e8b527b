// Over which rails a machine sends. Internal to the module. Two machines use one kind of network,
// as in a bond: if RDMA connects them over some of their rails, their other rails carry nothing.
#pragma once

#include <vector>

#include "topology/cluster/cluster.h"

namespace weft {

using Members = std::vector<bool>;  // of a rail: true for each machine that belongs to it

// For each rail: the machines whose interface on it has RDMA.
[[nodiscard]] std::vector<Members> rdma_of(const Cluster& cluster);

[[nodiscard]] inline bool is_rdma_between(const Members& has_rdma, int from, int to) {
  return has_rdma[static_cast<std::size_t>(from)] && has_rdma[static_cast<std::size_t>(to)];
}

// The rails that carry bytes between two machines, ascending: those that connect them, of one kind
// of network.
void find_rails_between(const std::vector<Rail>& rails, const std::vector<Members>& has_rdma,
                        int from, int to, std::vector<int>& found);

// For each rail: the machines that reach another machine over it (`reaches`), and those that send
// over it (`carries`). A machine without ranks does neither. If one machine has all ranks, it keeps
// its rails, so that tools can show what its ranks would use.
struct Reach {
  std::vector<Members> reaches;
  std::vector<Members> carries;
};
// `ranks` has the number of ranks of each machine. O(machines * rails). If machines have networks
// of both kinds, also the square of the number of different machines.
[[nodiscard]] Reach reach_of(const Cluster& cluster, const std::vector<int>& ranks,
                             const std::vector<Members>& has_rdma);

}  // namespace weft
