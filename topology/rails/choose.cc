// Which rails the ranks of each machine use. Machines with equally many ranks that are equal else
// are decided once.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "topology/rails/near.h"
#include "topology/rails/rails.h"
#include "topology/rails/reach.h"

namespace weft {
namespace {

// What the ranks of a machine choose from.
struct Offer {
  const Machine* machine;
  int ranks;
  std::vector<RailNic> rdma;
  std::vector<RailNic> others;
  std::vector<int> left_out;  // rails whose machines RDMA reaches, too
  friend auto operator<=>(const Offer&, const Offer&) = default;
};

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
        ranks_(ranks_of_machines(cluster, placement)) {
    use_.rails_ = cluster.rails;
    use_.has_rdma_ = rdma_of(cluster);
    reach_ = reach_of(cluster, ranks_, use_.has_rdma_);
  }

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
    use_.carries_ = std::move(reach_.carries);
    return std::move(use_);
  }

 private:
  [[nodiscard]] int seat_of(Rank rank) const {
    return placement_.seat[static_cast<std::size_t>(rank)];
  }

  [[nodiscard]] Offer offer_of(std::size_t machine) const {
    Offer offer{cluster_.machines[machine].hardware.get(), ranks_[machine], {}, {}, {}};
    for (std::size_t r = 0; r < cluster_.rails.size(); ++r) {
      const Rail& rail = cluster_.rails[r];
      const RailNic own{static_cast<int>(r), rail.nics[machine], rail.gbit_per_s[machine]};
      if (reach_.carries[r][machine]) {
        (use_.has_rdma_[r][machine] ? offer.rdma : offer.others).push_back(own);
      } else if (reach_.reaches[r][machine]) {
        offer.left_out.push_back(own.rail);
      }
    }
    return offer;
  }

  int first_choice_of(std::size_t machine) {
    const Offer offer = offer_of(machine);
    const auto [place, is_new] = known_.emplace(offer, static_cast<int>(use_.choices_.size()));
    if (!is_new) return place->second;
    // As the engine does: what is of one kind is shared out by itself.
    const std::vector<NearRails> rdma = shares_of(offer, offer.rdma);
    const std::vector<NearRails> others = shares_of(offer, offer.others);
    for (std::size_t rank = 0; rank < rdma.size(); ++rank) {
      NearRails both = joined(rdma[rank], others[rank]);
      if (both.rails.empty()) both.reason = "no rail of its machine reaches another";
      both.reason += why_left_out(offer);
      use_.choices_.push_back({std::move(both.rails), std::move(both.reason)});
    }
    return place->second;
  }

  // By local rank.
  [[nodiscard]] std::vector<NearRails> shares_of(const Offer& offer,
                                                 const std::vector<RailNic>& interfaces) const {
    std::vector<NearRails> near = near_rails(*offer.machine, offer.ranks, interfaces, policy_);
    if (!near.empty()) return near;
    NearRails all;
    for (const RailNic& one : interfaces) all.rails.push_back(one.rail);
    all.reason = interfaces.empty() ? ""
                 : policy_ == RailPolicy::all
                     ? "all rails of its machine"
                     : "all rails of its machine: none is known to be nearer than another";
    return std::vector<NearRails>(static_cast<std::size_t>(offer.ranks), all);
  }

  static NearRails joined(NearRails both, const NearRails& others) {
    std::ranges::copy(others.rails, std::back_inserter(both.rails));
    std::ranges::sort(both.rails);
    if (both.reason.empty()) {
      both.reason = others.reason;
    } else if (!others.reason.empty() && others.reason != both.reason) {
      both.reason += "; " + others.reason;
    }
    return both;
  }

  // "; not rail 2: RDMA reaches the same machines".
  [[nodiscard]] std::string why_left_out(const Offer& offer) const {
    if (offer.left_out.empty()) return {};
    std::vector<std::string> names;
    for (const int rail : offer.left_out)
      names.push_back(cluster_.rails[static_cast<std::size_t>(rail)].name);
    return fmt::format("; not {} {}: RDMA reaches the same machines",
                       names.size() == 1 ? "rail" : "rails", fmt::join(names, ", "));
  }

  const Cluster& cluster_;
  const Placement& placement_;
  RailPolicy policy_;
  std::vector<int> ranks_;  // by machine
  RailUse use_;
  Reach reach_;
  std::map<Offer, int> known_;
};

Result<RailUse> choose_rails(const Cluster& cluster, const Placement& placement,
                             RailPolicy policy) {
  WEFT_RETURN_IF_ERROR(check(cluster, placement));
  for (const Rail& rail : cluster.rails) WEFT_RETURN_IF_ERROR(check(cluster, rail));
  return RailChooser(cluster, placement, policy).choose();
}

}  // namespace weft
