// A graph's edges on a cluster's links: first what each link carries, then how long that takes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "topology/rails/bcube.h"
#include "topology/rails/rails.h"
#include "topology/rails/traffic.h"

namespace weft {
namespace {

// Levels can have rails of their own where each level has one, and each rank all of its machine's.
std::optional<BcubeShape> levels_of(const Cluster& cluster, const Graph& graph) {
  const auto is_alone = [](const ClusterMachine& machine) { return machine.ranks == 1; };
  if (!std::ranges::all_of(cluster.machines, is_alone)) return std::nullopt;
  const std::optional<BcubeShape> shape = bcube_shape(graph);
  return shape && std::cmp_less_equal(shape->digits, cluster.rails.size()) ? shape : std::nullopt;
}

class Mapper {
 public:
  Mapper(const Cluster& cluster, const Graph& graph, const Routes& routes,
         const Placement& placement, double bytes)
      : cluster_(cluster),
        levels_(levels_of(cluster, graph)),
        routes_(routes),
        placement_(placement),
        traffic_(routes, bytes) {}

  Status add(const Edge& edge, RailMap& map) {
    find(edge.from, edge.to);
    if (!route_.exists()) return without_way(edge);
    traffic_.add(route_);
    MappedEdge mapped{edge.from, edge.to, route_.reason, 0, route_.ways, false, route_.is_short,
                      0,         0};
    if (route_.reason != EdgeReason::memory)
      mapped.goes_rdma_before = map.use.goes_rdma_before(edge.from, edge.to);
    if (levels_) name_level(map.use, mapped);
    map.edges.push_back(std::move(mapped));
    return {};
  }

  // After all were added.
  void time(MappedEdge& edge) {
    find(edge.from, edge.to);
    edge.us = traffic_.us(route_);
    edge.alone_us = traffic_.alone_us(route_);
  }

  [[nodiscard]] const Traffic& traffic() const { return traffic_; }
  [[nodiscard]] std::vector<LinkLoad> loads() const {
    const Links& links = routes_.links();
    std::vector<LinkLoad> loads;
    for (std::size_t link = 0; link < links.size(); ++link) {
      if (traffic_.us(link) == 0) continue;
      LinkLoad load = links.describe(link);
      load.messages = traffic_.messages(link);
      load.us = traffic_.us(link);
      loads.push_back(std::move(load));
    }
    std::ranges::stable_sort(loads, std::ranges::greater{}, &LinkLoad::us);
    return loads;
  }

 private:
  // Cabled as a BCube, an edge has the one way that its level's rail is.
  void name_level(const RailUse& use, MappedEdge& edge) {
    const int level = bcube_level(*levels_, edge.from, edge.to);
    use.rails_of_machines(edge.from, edge.to, reaching_);
    if (reaching_.size() != 1 || reaching_.front() != level) return;
    edge.reason = EdgeReason::level;
    edge.level = level;
  }

  void find(Rank from, Rank to) {
    routes_.find({placement_.seat[static_cast<std::size_t>(from)],
                  placement_.seat[static_cast<std::size_t>(to)]},
                 route_);
  }
  [[nodiscard]] const std::string& machine(Rank rank) const {
    return cluster_.machines[static_cast<std::size_t>(placement_.machine_of(rank, cluster_))].name;
  }
  [[nodiscard]] Status without_way(const Edge& edge) const {
    return {Code::invalid_argument, fmt::format("edge {} -> {}: {} and {} share no rail", edge.from,
                                                edge.to, machine(edge.from), machine(edge.to))};
  }

  const Cluster& cluster_;
  std::optional<BcubeShape> levels_;  // if the graph is one
  const Routes& routes_;
  const Placement& placement_;
  Traffic traffic_;
  Route route_;
  std::vector<int> reaching_;  // rails
};

}  // namespace

Result<RailMap> map_graph(const Cluster& cluster, const Graph& graph, const Placement& placement,
                          const MapOptions& options) {
  if (placement.seat.size() != static_cast<std::size_t>(graph.size())) {
    return Status(Code::invalid_argument,
                  fmt::format("{} has {} ranks, the placement {}", graph.name(), graph.size(),
                              placement.seat.size()));
  }
  WEFT_ASSIGN(const Routes routes, Routes::make(cluster, placement, options));
  RailMap map{.use = routes.use(), .edges = {}, .loads = {}};
  Mapper mapper(cluster, graph, routes, placement, options.bytes);
  for (const Edge& edge : graph.edges()) WEFT_RETURN_IF_ERROR(mapper.add(edge, map));
  for (MappedEdge& edge : map.edges) {
    mapper.time(edge);
    map.us = std::max(map.us, edge.us);
  }
  map.loads = mapper.loads();
  map.between_switches = mapper.traffic().between_switches();
  return map;
}

std::string reason_text(const MappedEdge& edge, const Cluster& cluster) {
  std::vector<std::string> rails;
  for (const Way& way : edge.ways)
    rails.push_back(cluster.rails[static_cast<std::size_t>(way.rail)].name);
  const std::string names =
      fmt::format("{} {}", rails.size() == 1 ? "rail" : "rails", fmt::join(rails, ", "));
  std::string why = edge.goes_rdma_before ? "; RDMA goes before other networks" : "";
  if (edge.is_short) why += "; a message has no more pieces";
  switch (edge.reason) {
    case EdgeReason::memory:
      return "one machine: memory";
    case EdgeReason::level:
      return fmt::format("level {} of a BCube: {}{}", edge.level, names, why);
    case EdgeReason::both_use:
      return fmt::format("both ranks use {}{}", names, why);
    case EdgeReason::both_on:
      return fmt::format("no rail that both ranks use: both machines have {}{}", names, why);
  }
  return {};
}

}  // namespace weft
