// Internal to the module: over which rails a machine sends. As a bond has it, two machines use one
// kind of network: where RDMA reaches over some of their rails, the others carry nothing.
#pragma once

#include <vector>

#include "topology/cluster/cluster.h"

namespace weft {

using Members = std::vector<bool>;  // of a rail, by machine

// By rail: the machines whose interface on it has RDMA.
[[nodiscard]] std::vector<Members> rdma_of(const Cluster& cluster);

[[nodiscard]] inline bool is_rdma_between(const Members& has_rdma, int from, int to) {
  return has_rdma[static_cast<std::size_t>(from)] && has_rdma[static_cast<std::size_t>(to)];
}

// The rails that carry bytes between two machines, ascending: those that reach, of one kind.
void find_rails_between(const std::vector<Rail>& rails, const std::vector<Members>& has_rdma,
                        int from, int to, std::vector<int>& found);

// By rail: machines that reach another one over it, and those that send over it. A machine without
// ranks does neither. One that has all of them keeps its rails, to show what they would use.
struct Reach {
  std::vector<Members> reaches;
  std::vector<Members> carries;
};
// `ranks`: by machine. O(machines * rails), or where machines have networks of both kinds the
// square of how many kinds of them there are.
[[nodiscard]] Reach reach_of(const Cluster& cluster, const std::vector<int>& ranks,
                             const std::vector<Members>& has_rdma);

}  // namespace weft
