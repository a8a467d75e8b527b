// From two seats to rails, from rails to links.
#include "topology/rails/routes.h"

#include <algorithm>

namespace weft {
namespace {

// Levels have rails of their own where a rank need not share its machine's interfaces.
bool has_rail_for_each(const Cluster& cluster, BcubeShape shape) {
  return cluster.rails.size() >= static_cast<std::size_t>(shape.digits) &&
         std::ranges::all_of(cluster.machines,
                             [](const ClusterMachine& machine) { return machine.ranks == 1; });
}

}  // namespace

Result<Routes> Routes::make(const Cluster& cluster, const Graph& graph, RailPolicy policy) {
  WEFT_ASSIGN(RailUse use, choose_rails(cluster, Placement::identity(cluster.ranks()), policy));
  std::optional<BcubeShape> levels;
  if (policy != RailPolicy::all) levels = bcube_shape(graph);
  if (levels && !has_rail_for_each(cluster, *levels)) levels.reset();
  return Routes(cluster, std::move(use), levels);
}

Routes::Routes(const Cluster& cluster, RailUse use, std::optional<BcubeShape> levels)
    : cluster_(&cluster), links_(cluster), use_(std::move(use)), levels_(levels) {
  for (std::size_t m = 0; m < cluster.machines.size(); ++m) {
    machine_of_.insert(machine_of_.end(), static_cast<std::size_t>(cluster.machines[m].ranks),
                       static_cast<int>(m));
  }
}

void Routes::find(const Ends& ends, Route& route) const {
  route.from_machine = machine_of_[static_cast<std::size_t>(ends.from_seat)];
  route.to_machine = machine_of_[static_cast<std::size_t>(ends.to_seat)];
  route.to_seat = ends.to_seat;
  route.ways.clear();
  route.reason = EdgeReason::memory;
  if (route.from_machine == route.to_machine || take_level(ends, route)) return;
  use_.rails_between(ends.from_seat, ends.to_seat, route.rails);
  double all = 0;
  for (const int r : route.rails) {
    const std::vector<double>& rates = cluster_->rails[static_cast<std::size_t>(r)].gbit_per_s;
    const double rate = std::min(rates[static_cast<std::size_t>(route.from_machine)],
                                 rates[static_cast<std::size_t>(route.to_machine)]);
    route.ways.push_back({r, rate});
    all += rate;
  }
  for (Way& way : route.ways) way.share /= all;
  const bool is_used =
      !route.rails.empty() &&
      std::ranges::binary_search(use_.rails_of(ends.from_seat), route.rails.front()) &&
      std::ranges::binary_search(use_.rails_of(ends.to_seat), route.rails.front());
  route.reason = is_used ? EdgeReason::both_use : EdgeReason::both_on;
}

bool Routes::take_level(const Ends& ends, Route& route) const {
  if (!levels_) return false;
  const int level = bcube_level(*levels_, ends.from, ends.to);
  const Rail& rail = cluster_->rails[static_cast<std::size_t>(level)];
  if (!rail.reaches(route.from_machine, route.to_machine)) return false;
  route.ways.push_back({level, 1});
  route.reason = EdgeReason::level;
  route.level = level;
  return true;
}

double Routes::latency_us(const Route& route) const {
  if (route.reason == EdgeReason::memory) return cluster_->memory.latency_us;
  double most = 0;
  for (const Way& way : route.ways) {
    const Rail& rail = cluster_->rails[static_cast<std::size_t>(way.rail)];
    most = std::max(most, rail.latency_between(route.from_machine, route.to_machine));
  }
  return most;
}

}  // namespace weft
