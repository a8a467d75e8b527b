// From two seats to rails, from rails to links.
#include "topology/rails/routes.h"

#include <algorithm>
#include <cmath>

namespace weft {

Result<Routes> Routes::make(const Cluster& cluster, const Placement& placement,
                            const MapOptions& options) {
  WEFT_ASSIGN(RailUse use, choose_rails(cluster, placement, options.policy));
  return Routes(cluster, placement, std::move(use), options.bytes);
}

Routes::Routes(const Cluster& cluster, const Placement& placement, RailUse use, double bytes)
    : cluster_(&cluster),
      links_(cluster),
      use_(std::move(use)),
      bytes_(bytes),
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
  route.is_short = false;
  if (route.from_machine == route.to_machine) return;
  const Rank from = rank_at_[static_cast<std::size_t>(seats.from)];
  const Rank to = rank_at_[static_cast<std::size_t>(seats.to)];
  use_.rails_between(from, to, route.rails);
  route.reason = EdgeReason::both_on;
  if (route.rails.empty()) return;
  for (const int r : route.rails) {
    const std::vector<double>& rates = cluster_->rails[static_cast<std::size_t>(r)].gbit_per_s;
    const double rate = std::min(rates[static_cast<std::size_t>(route.from_machine)],
                                 rates[static_cast<std::size_t>(route.to_machine)]);
    route.ways.push_back({r, rate});
  }
  const int first = route.rails.front();
  keep_one_for_each_piece(use_.is_rdma(first, from, to), route);
  double all = 0;
  for (const Way& way : route.ways) all += way.share;
  for (Way& way : route.ways) way.share /= all;
  const bool is_used = std::ranges::binary_search(use_.rails_of(from), first) &&
                       std::ranges::binary_search(use_.rails_of(to), first);
  if (is_used) route.reason = EdgeReason::both_use;
}

void Routes::keep_one_for_each_piece(bool is_rdma, Route& route) const {
  const double pieces = std::ceil(bytes_ / (is_rdma ? kRdmaPieceBytes : kOtherPieceBytes));
  if (pieces >= static_cast<double>(route.ways.size())) return;
  route.is_short = true;
  const auto is_faster = [](const Way& a, const Way& b) {
    return a.share != b.share ? a.share > b.share : a.rail < b.rail;
  };
  std::ranges::sort(route.ways, is_faster);
  route.ways.resize(std::max<std::size_t>(static_cast<std::size_t>(pieces), 1));
  std::ranges::sort(route.ways, {}, &Way::rail);
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
