// From two seats to rails, from rails to links.
#include "topology/rails/routes.h"

#include <algorithm>

namespace weft {

Result<Routes> Routes::make(const Cluster& cluster, RailPolicy policy) {
  WEFT_ASSIGN(RailUse use, choose_rails(cluster, Placement::identity(cluster.ranks()), policy));
  return Routes(cluster, std::move(use));
}

Routes::Routes(const Cluster& cluster, RailUse use)
    : cluster_(&cluster), links_(cluster), use_(std::move(use)) {
  for (std::size_t m = 0; m < cluster.machines.size(); ++m) {
    machine_of_.insert(machine_of_.end(), static_cast<std::size_t>(cluster.machines[m].ranks),
                       static_cast<int>(m));
  }
}

void Routes::find(Seats seats, Route& route) const {
  route.from_machine = machine_of_[static_cast<std::size_t>(seats.from)];
  route.to_machine = machine_of_[static_cast<std::size_t>(seats.to)];
  route.to_seat = seats.to;
  route.ways.clear();
  route.reason = EdgeReason::memory;
  if (route.from_machine == route.to_machine) return;
  use_.rails_between(seats.from, seats.to, route.rails);
  double all = 0;
  for (const int r : route.rails) {
    const std::vector<double>& rates = cluster_->rails[static_cast<std::size_t>(r)].gbit_per_s;
    const double rate = std::min(rates[static_cast<std::size_t>(route.from_machine)],
                                 rates[static_cast<std::size_t>(route.to_machine)]);
    route.ways.push_back({r, rate});
    all += rate;
  }
  for (Way& way : route.ways) way.share /= all;
  const bool is_used = !route.rails.empty() &&
                       std::ranges::binary_search(use_.rails_of(seats.from), route.rails.front()) &&
                       std::ranges::binary_search(use_.rails_of(seats.to), route.rails.front());
  route.reason = is_used ? EdgeReason::both_use : EdgeReason::both_on;
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
