// Which rails the ranks of each machine use. Machines with equally many ranks that are equal else are
// decided once.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "topology/rails/near.h"
#include "topology/rails/rails.h"

namespace weft {
namespace {

using Kind = std::tuple<const Machine*, int, std::vector<RailNic>>;

// By rail and machine: is there another machine with ranks that this one reaches? Machines without
// ranks have none. A machine that has all ranks keeps its rails, to show what they would use.
std::vector<std::vector<bool>> machines_with_company(const Cluster& cluster,
                                                     const std::vector<int>& ranks) {
  std::vector<std::vector<bool>> company;
  const auto machines = static_cast<int>(ranks.size());
  const auto has_ranks = [&ranks](int m) { return ranks[static_cast<std::size_t>(m)] > 0; };
  const bool is_alone = std::ranges::count(ranks, 0) == machines - 1;
  for (const Rail& rail : cluster.rails) {
    const auto counts = [&](int m) { return rail.has(m) && has_ranks(m); };
    std::map<int, int> members;  // of a part
    for (int m = 0; m < machines; ++m) members[rail.part_of(m)] += counts(m) ? 1 : 0;
    std::vector<bool> has_company;
    for (int m = 0; m < machines; ++m)
      has_company.push_back(counts(m) && (is_alone || members[rail.part_of(m)] > 1));
    company.push_back(std::move(has_company));
  }
  return company;
}

// By machine.
std::vector<int> ranks_of_machines(const Cluster& cluster, const Placement& placement) {
  std::vector<int> ranks(cluster.machines.size(), 0);
  for (const int seat : placement.seat) ++ranks[static_cast<std::size_t>(cluster.machine_of(seat))];
  return ranks;
}

Status check(const Cluster& cluster, const Placement& placement) {
  const auto seats = static_cast<std::size_t>(cluster.ranks());
  if (placement.seat.size() > seats) {
    return Status(Code::invalid_argument,
                  fmt::format("{} has room for {} ranks, not for {}", cluster.source, seats,
                              placement.seat.size()));
  }
  std::vector<Rank> sitting(seats, kNoRank);
  for (std::size_t rank = 0; rank < placement.seat.size(); ++rank) {
    const auto seat = static_cast<std::size_t>(placement.seat[rank]);
    if (seat >= seats) {
      return Status(Code::invalid_argument,
                    fmt::format("rank {} has seat {}, of {}", rank, placement.seat[rank], seats));
    }
    if (sitting[seat] != kNoRank) {
      return Status(Code::invalid_argument, fmt::format("ranks {} and {} have the same seat, {}",
                                                        sitting[seat], rank, seat));
    }
    sitting[seat] = static_cast<Rank>(rank);
  }
  return {};
}

Status check(const Cluster& cluster, const Rail& rail) {
  for (std::size_t m = 0; m < cluster.machines.size(); ++m) {
    const ClusterMachine& machine = cluster.machines[m];
    if (rail.nics[m] < static_cast<int>(machine.hardware->nics.size())) continue;
    return Status(Code::unavailable,
                  fmt::format("rail {}: the network interface that {} had on it is gone", rail.name,
                              machine.name));
  }
  return {};
}

}  // namespace

class RailChooser {
 public:
  RailChooser(const Cluster& cluster, const Placement& placement, RailPolicy policy)
      : cluster_(cluster),
        placement_(placement),
        policy_(policy),
        ranks_(ranks_of_machines(cluster, placement)),
        company_(machines_with_company(cluster, ranks_)) {}

  // The ranks of a machine share out its rails in the order of their seats, as a launcher numbers
  // them there.
  RailUse choose() {
    std::vector<int> next_choice;  // by machine
    for (std::size_t m = 0; m < cluster_.machines.size(); ++m)
      next_choice.push_back(ranks_[m] == 0 ? 0 : first_choice_of(m));
    std::vector<Rank> by_seat(placement_.seat.size());
    std::iota(by_seat.begin(), by_seat.end(), 0);
    std::ranges::sort(by_seat, {}, [this](Rank rank) { return seat_of(rank); });
    use_.machine_of_.resize(by_seat.size());
    use_.choice_of_.resize(by_seat.size());
    for (const Rank rank : by_seat) {
      const int machine = cluster_.machine_of(seat_of(rank));
      use_.machine_of_[static_cast<std::size_t>(rank)] = machine;
      use_.choice_of_[static_cast<std::size_t>(rank)] =
          next_choice[static_cast<std::size_t>(machine)]++;
    }
    use_.rails_ = cluster_.rails;
    return std::move(use_);
  }

 private:
  [[nodiscard]] int seat_of(Rank rank) const {
    return placement_.seat[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] Kind kind_of(std::size_t machine) const {
    std::vector<RailNic> interfaces;
    for (std::size_t r = 0; r < cluster_.rails.size(); ++r) {
      const Rail& rail = cluster_.rails[r];
      if (company_[r][machine])
        interfaces.push_back({static_cast<int>(r), rail.nics[machine], rail.gbit_per_s[machine]});
    }
    return {cluster_.machines[machine].hardware.get(), ranks_[machine], std::move(interfaces)};
  }

  int first_choice_of(std::size_t machine) {
    const Kind kind = kind_of(machine);
    const auto [place, is_new] = known_.emplace(kind, static_cast<int>(use_.choices_.size()));
    if (!is_new) return place->second;
    const auto& [hardware, ranks, interfaces] = kind;
    std::vector<NearRails> near = near_rails(*hardware, ranks, interfaces, policy_);
    for (NearRails& each : near)
      use_.choices_.push_back({std::move(each.rails), std::move(each.reason)});
    if (near.empty()) use_all(ranks, interfaces);
    return place->second;
  }

  void use_all(int ranks, const std::vector<RailNic>& interfaces) {
    RailUse::Choice choice;
    for (const RailNic& one : interfaces) choice.rails.push_back(one.rail);
    choice.reason = interfaces.empty() ? "no rail of its machine reaches another"
                    : policy_ == RailPolicy::all
                        ? "all rails of its machine"
                        : "all rails of its machine: none is known to be nearer than another";
    use_.choices_.insert(use_.choices_.end(), static_cast<std::size_t>(ranks), choice);
  }

  const Cluster& cluster_;
  const Placement& placement_;
  RailPolicy policy_;
  std::vector<int> ranks_;  // by machine
  std::vector<std::vector<bool>> company_;
  RailUse use_;
  std::map<Kind, int> known_;
};

Result<RailUse> choose_rails(const Cluster& cluster, const Placement& placement,
                             RailPolicy policy) {
  WEFT_RETURN_IF_ERROR(check(cluster, placement));
  for (const Rail& rail : cluster.rails) WEFT_RETURN_IF_ERROR(check(cluster, rail));
  return RailChooser(cluster, placement, policy).choose();
}

}  // namespace weft
