// The search for seats: two starts, swaps from the better one, and the best of all three.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "topology/rails/greedy.h"
#include "topology/rails/swaps.h"

namespace weft {
namespace {

Result<PlacementCost> cost_of(const Cluster& cluster, const Graph& graph,
                              const Placement& placement, const MapOptions& options) {
  WEFT_ASSIGN(const Routes routes, Routes::make(cluster, placement, options));
  Traffic traffic(routes, options.bytes);
  PlacementCost cost;
  Route route;
  const auto find = [&](const Edge& edge) {
    routes.find({placement.seat[static_cast<std::size_t>(edge.from)],
                 placement.seat[static_cast<std::size_t>(edge.to)]},
                route);
    return route.exists();
  };
  const std::vector<Edge> edges = graph.edges();
  for (const Edge& edge : edges) {
    if (find(edge)) {
      traffic.add(route);
    } else {
      ++cost.without_way;
    }
  }
  for (const Edge& edge : edges)
    if (find(edge)) cost.us = std::max(cost.us, traffic.us(route));
  cost.between_switches = traffic.between_switches();
  return cost;
}

}  // namespace

bool PlacementCost::is_below(const PlacementCost& other) const {
  constexpr double kSame = 1e-9;  // sums in another order
  const auto less = [](double a, double b) { return a < b - kSame * b; };
  if (without_way != other.without_way) return without_way < other.without_way;
  if (less(us, other.us) || less(other.us, us)) return us < other.us;
  for (std::size_t level = between_switches.size(); level-- > 0;) {
    const double a = between_switches[level];
    const double b = other.between_switches[level];
    if (less(a, b) || less(b, a)) return a < b;
  }
  return false;
}

bool FoundPlacement::is_identity() const {
  return placement.seat == Placement::identity(static_cast<int>(placement.seat.size())).seat;
}

Result<FoundPlacement> place_ranks(const Cluster& cluster, const Graph& graph,
                                   const PlacementSearch& search) {
  FoundPlacement found;
  found.placement = Placement::identity(graph.size());
  const auto cost = [&](const Placement& placement) {
    return cost_of(cluster, graph, placement, search.map);
  };
  WEFT_ASSIGN(found.identity, cost(found.placement));
  const int seats = search.seats == 0 ? cluster.ranks() : std::min(search.seats, cluster.ranks());
  if (seats < graph.size()) {
    return Status(Code::invalid_argument,
                  fmt::format("{} seats are too few for {} ranks", seats, graph.size()));
  }
  found.found = found.identity;
  const auto consider = [&found](Placement placement, const PlacementCost& costs) {
    if (!costs.is_below(found.found)) return;
    found.placement = std::move(placement);
    found.found = costs;
  };
  Placement greedy = greedy_placement(cluster, graph, seats);
  WEFT_ASSIGN(found.greedy, cost(greedy));
  consider(std::move(greedy), found.greedy);
  // Where seats stay free, what a machine's ranks use depends on how many there are. The swaps are
  // led by what they would use with all seats taken; what they find is judged by what they use.
  WEFT_ASSIGN(const Routes routes, Routes::make(cluster, Placement::identity(seats), search.map));
  Swaps swaps(routes, graph, seats_by_switch(cluster, seats), found.placement, search);
  swaps.run();
  found.swaps = swaps.tried();
  Placement swapped = swaps.best();
  WEFT_ASSIGN(const PlacementCost swapped_cost, cost(swapped));
  consider(std::move(swapped), swapped_cost);
  return found;
}

}  // namespace weft
