// Which rails the ranks of each machine use. Equal machines are decided once.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "topology/rails/near.h"
#include "topology/rails/rails.h"

namespace weft {
namespace {

using Kind = std::tuple<const Machine*, int, std::vector<RailNic>>;

// By rail and machine: is there another machine that this one reaches? A machine alone in the world
// keeps its rails, to show what its ranks would use.
std::vector<std::vector<bool>> machines_with_company(const Cluster& cluster) {
  std::vector<std::vector<bool>> company;
  const int machines = static_cast<int>(cluster.machines.size());
  for (const Rail& rail : cluster.rails) {
    std::map<int, int> members;  // of a part
    for (int m = 0; m < machines; ++m) members[rail.part_of(m)] += rail.has(m) ? 1 : 0;
    std::vector<bool> has_company;
    for (int m = 0; m < machines; ++m)
      has_company.push_back(rail.has(m) && (machines == 1 || members[rail.part_of(m)] > 1));
    company.push_back(std::move(has_company));
  }
  return company;
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
    const std::vector<Nic>& nics = machine.hardware->nics;
    if (rail.nics[m] < static_cast<int>(nics.size())) continue;
    std::vector<std::string> left;
    for (const Nic& nic : nics) left.push_back(nic.name());
    return Status(
        Code::unavailable,
        fmt::format("rail {}: the network interface that {} had on it, number {} of its list, is "
                    "gone: it has {}",
                    rail.name, machine.name, rail.nics[m],
                    left.empty() ? "none" : fmt::format("{}", fmt::join(left, ", "))));
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
        company_(machines_with_company(cluster)) {}

  RailUse choose() {
    std::vector<int> first_choice;  // by machine: that of its first seat
    for (std::size_t m = 0; m < cluster_.machines.size(); ++m)
      first_choice.push_back(first_choice_of(m));
    for (const int seat : placement_.seat) {
      const auto machine = static_cast<std::size_t>(cluster_.machine_of(seat));
      use_.machine_of_.push_back(static_cast<int>(machine));
      use_.choice_of_.push_back(first_choice[machine] + seat -
                                cluster_.machines[machine].first_rank);
    }
    use_.rails_ = cluster_.rails;
    return std::move(use_);
  }

 private:
  [[nodiscard]] Kind kind_of(std::size_t machine) const {
    std::vector<RailNic> interfaces;
    for (std::size_t r = 0; r < cluster_.rails.size(); ++r) {
      const Rail& rail = cluster_.rails[r];
      if (company_[r][machine])
        interfaces.push_back({static_cast<int>(r), rail.nics[machine], rail.gbit_per_s[machine]});
    }
    const ClusterMachine& known = cluster_.machines[machine];
    return {known.hardware.get(), known.ranks, std::move(interfaces)};
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
