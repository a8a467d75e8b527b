// Counts the terms of each rank.
#include "tools/weft/map/lanes.h"

#include <algorithm>
#include <vector>

#include "scheduler/simulate/simulate.h"

namespace weft {

int lanes_of(double bytes, int lanes) {
  return static_cast<int>(
      stripes_of(static_cast<std::size_t>(bytes), static_cast<std::size_t>(lanes)));
}

CombiningWork lane_work(const Cluster& cluster, const Graph& graph, const Placement& placement,
                        double bytes, int lanes) {
  struct Terms {
    double combined = 1;  // its own
    double read = 0;      // from memory of its machine
  };
  std::vector<Terms> terms(static_cast<std::size_t>(graph.size()));
  for (const Edge& edge : graph.edges()) {
    Terms& own = terms[static_cast<std::size_t>(edge.to)];
    const bool is_near =
        placement.machine_of(edge.from, cluster) == placement.machine_of(edge.to, cluster);
    (is_near ? own.read : own.combined) += 1;
  }
  constexpr double kBytesPerUs = 1e3;  // of a GB/s
  const int used = lanes_of(bytes, lanes);
  CombiningWork work{.lanes = used};
  for (Rank rank = 0; rank < graph.size(); ++rank) {
    const Terms& own = terms[static_cast<std::size_t>(rank)];
    if (own.combined + own.read == 1) continue;  // nothing arrives
    const auto machine = static_cast<std::size_t>(placement.machine_of(rank, cluster));
    const double rate =
        cluster.memory.lane_gbyte_per_s(cluster.machines[machine].ranks, used) * kBytesPerUs;
    const double read_rate = cluster.memory.gbyte_per_s * kBytesPerUs;
    const double us = bytes / used * (own.combined / rate + own.read / read_rate);
    if (us <= work.us) continue;
    work = {used, rank, bytes * (own.combined + own.read), rate / kBytesPerUs, us};
  }
  return work;
}

Cluster with_lanes(Cluster cluster, int lanes) {
  cluster.memory.gbyte_per_s *= lanes;
  return cluster;
}

}  // namespace weft
