// jobs: small clusters and plans to simulate, whose times can be worked out by hand.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "scheduler/simulate/simulate.h"

namespace weft {

// Bytes per microsecond of the interfaces below, so that times come out round.
inline constexpr double kRate = 1000;

// `machines` with `ranks` each, on `rails` of 8 Gbit/s; no latency, and memory so fast that it does
// not count.
[[nodiscard]] Cluster cluster_of(int machines, int ranks, int rails);

// Placed in the cluster's order, each rank using all rails of its machine. Combining costs nothing.
[[nodiscard]] Result<Simulation> simulate_plans(const Cluster& cluster, int ranks,
                                                const std::function<Planned(Rank)>& plan,
                                                OperandBytes bytes, SimulateOptions options = {});

// Every rank's neighbor_allreduce of `bytes` on edges (from, to); and an allreduce.
using Edges = std::vector<std::pair<Rank, Rank>>;
[[nodiscard]] Result<Simulation> simulate_neighbors(const Cluster& cluster, const Edges& edges,
                                                    std::size_t bytes,
                                                    SimulateOptions options = {});
[[nodiscard]] Result<Simulation> simulate_allreduce(const Cluster& cluster,
                                                    AllreduceAlgorithm algorithm, std::size_t bytes,
                                                    SimulateOptions options = {});
// Places of machines for algorithms that make use of them.
[[nodiscard]] Layout layout_of(const Cluster& cluster);

// The link of that name; one without bytes when there is none.
[[nodiscard]] Link link_named(const Simulation& simulation, const Cluster& cluster,
                              const std::string& wanted);

}  // namespace weft
