// A graph's edges on a cluster's links: first what each link carries, then how long that takes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "topology/rails/rails.h"
#include "topology/rails/traffic.h"

namespace weft {
namespace {

class Mapper {
 public:
  Mapper(const Cluster& cluster, const Routes& routes, const Placement& placement, double bytes)
      : cluster_(cluster), routes_(routes), placement_(placement), traffic_(routes, bytes) {}

  Status add(const Edge& edge, RailMap& map) {
    find(edge.from, edge.to);
    if (!route_.exists()) return without_way(edge);
    traffic_.add(route_);
    map.edges.push_back({edge.from, edge.to, route_.reason, route_.level, route_.ways, 0, 0});
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
  void find(Rank from, Rank to) {
    routes_.find({from, to, placement_.seat[static_cast<std::size_t>(from)],
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
  const Routes& routes_;
  const Placement& placement_;
  Traffic traffic_;
  Route route_;
};

}  // namespace

Result<RailMap> map_graph(const Cluster& cluster, const Graph& graph, const Placement& placement,
                          const MapOptions& options) {
  if (placement.seat.size() != static_cast<std::size_t>(graph.size())) {
    return Status(Code::invalid_argument,
                  fmt::format("{} has {} ranks, the placement {}", graph.name(), graph.size(),
                              placement.seat.size()));
  }
  WEFT_ASSIGN(RailUse use, choose_rails(cluster, placement, options.policy));
  WEFT_ASSIGN(const Routes routes, Routes::make(cluster, graph, options.policy));
  RailMap map{.use = std::move(use), .edges = {}, .loads = {}};
  Mapper mapper(cluster, routes, placement, options.bytes);
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
  switch (edge.reason) {
    case EdgeReason::memory:
      return "one machine: memory";
    case EdgeReason::level:
      return fmt::format("level {} of a BCube: {}", edge.level, names);
    case EdgeReason::both_use:
      return fmt::format("both ranks use {}", names);
    case EdgeReason::both_on:
      return fmt::format("no rail that both ranks use: both machines have {}", names);
  }
  return {};
}

}  // namespace weft
