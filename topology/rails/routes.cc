// From two seats to rails, from rails to links.
#include "topology/rails/routes.h"

#include <algorithm>

namespace weft {

Result<Routes> Routes::make(const Cluster& cluster, const Placement& placement, RailPolicy policy) {
  WEFT_ASSIGN(RailUse use, choose_rails(cluster, placement, policy));
  return Routes(cluster, placement, std::move(use));
}

Routes::Routes(const Cluster& cluster, const Placement& placement, RailUse use)
    : cluster_(&cluster),
      links_(cluster),
      use_(std::move(use)),
      rank_at_(static_cast<std::size_t>(cluster.ranks()), kNoRank) {
  for (std::size_t m = 0; m < cluster.machines.size(); ++m) {
    machine_of_.insert(machine_of_.end(), static_cast<std::size_t>(cluster.machines[m].ranks),
                       static_cast<int>(m));
  }
  for (std::size_t rank = 0; rank < placement.seat.size(); ++rank)
    rank_at_[static_cast<std::size_t>(placement.seat[rank])] = static_cast<Rank>(rank);
}

void Routes::find(Seats seats, Route& route) const {
  route.from_machine = machine_of_[static_cast<std::size_t>(seats.from)];
  route.to_machine = machine_of_[static_cast<std::size_t>(seats.to)];
  route.to_seat = seats.to;
  route.ways.clear();
  route.reason = EdgeReason::memory;
  if (route.from_machine == route.to_machine) return;
  const Rank from = rank_at_[static_cast<std::size_t>(seats.from)];
  const Rank to = rank_at_[static_cast<std::size_t>(seats.to)];
  use_.rails_between(from, to, route.rails);
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
                       std::ranges::binary_search(use_.rails_of(from), route.rails.front()) &&
                       std::ranges::binary_search(use_.rails_of(to), route.rails.front());
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
