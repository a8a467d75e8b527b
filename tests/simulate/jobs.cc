// jobs: see the header.
#include "tests/simulate/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace weft {
namespace {

constexpr double kNoCostGbyte = 1e9;

}  // namespace

Cluster cluster_of(int machines, int ranks, int rails) {
  Machine machine;
  machine.source = "test";
  for (int rail = 0; rail < rails; ++rail) {
    Nic nic;
    nic.rdma = fmt::format("nic{}", rail);
    nic.mbit_per_s = 8000;
    machine.nics.push_back(nic);
  }
  Cluster cluster =
      uniform_cluster(std::make_shared<const Machine>(machine), machines, ranks).value();
  cluster.memory = {.gbyte_per_s = kNoCostGbyte, .machine_gbyte_per_s = 0, .latency_us = 0};
  return cluster;
}

Result<Simulation> simulate_plans(const Cluster& cluster, int ranks,
                                  const std::function<Planned(Rank)>& plan, OperandBytes bytes,
                                  SimulateOptions options) {
  if (options.combine_gbyte_per_s == 0) options.combine_gbyte_per_s = kNoCostGbyte;
  const Placement placement = Placement::identity(ranks);
  WEFT_ASSIGN(const RailUse rails, choose_rails(cluster, placement, RailPolicy::all));
  return simulate({cluster, placement, rails, ranks, plan, bytes}, options);
}

Result<Simulation> simulate_neighbors(const Cluster& cluster, const Edges& edges, std::size_t bytes,
                                      SimulateOptions options) {
  const int ranks = cluster.ranks();
  const auto plan = [&](Rank rank) {
    View view{rank, ranks, {}, {}};
    for (const auto& [from, to] : edges) {
      if (to == rank) view.in.push_back(from);
      if (from == rank) view.out.push_back(to);
    }
    std::ranges::sort(view.in);
    std::ranges::sort(view.out);
    return Planned{view, plan_neighbor_allreduce(view, {})};
  };
  return simulate_plans(cluster, ranks, plan, {bytes, bytes, bytes}, std::move(options));
}

Result<Simulation> simulate_allreduce(const Cluster& cluster, AllreduceAlgorithm algorithm,
                                      std::size_t bytes, SimulateOptions options) {
  const Layout layout = layout_of(cluster);
  const int ranks = cluster.ranks();
  const auto plan = [&](Rank rank) {
    return plan_allreduce(rank, ranks, bytes, {}, algorithm, layout);
  };
  return simulate_plans(cluster, ranks, plan, {bytes, bytes, bytes}, std::move(options));
}

Layout layout_of(const Cluster& cluster) {
  Layout layout{{}, static_cast<int>(cluster.rails.size())};
  for (Rank rank = 0; rank < cluster.ranks(); ++rank)
    layout.machine.push_back(cluster.machine_of(rank));
  return layout;
}

Link link_named(const Simulation& simulation, const Cluster& cluster, const std::string& wanted) {
  for (const Link& link : simulation.links)
    if (name(link, cluster) == wanted) return link;
  return {};
}

}  // namespace weft
