// The shares of the ranks of a machine, where launchers usually let them work, and the reasons.
#include "topology/rails/near.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace weft {
namespace {

const Nic& nic_of(const Machine& machine, const RailNic& interface) {
  return machine.nics[static_cast<std::size_t>(interface.nic)];
}

// Who gets which.
struct Shares {
  std::vector<std::vector<int>> far;  // by rank and interface
  std::vector<std::vector<int>> of_rank;
  std::vector<int> sharers;
};

Shares share(const Machine& machine, int ranks, const std::vector<RailNic>& interfaces,
             RailPolicy policy) {
  Shares shares;
  std::vector<double> rates;
  for (const RailNic& one : interfaces) rates.push_back(one.gbit_per_s);
  shares.far.resize(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const Workplace place = usual_workplace(machine, rank, ranks);
    for (const RailNic& one : interfaces) {
      shares.far[static_cast<std::size_t>(rank)].push_back(
          how_far(machine, place, nic_of(machine, one)));
    }
  }
  shares.of_rank = share_rails(shares.far, rates, policy);
  shares.sharers.assign(rates.size(), 0);
  for (const std::vector<int>& taken : shares.of_rank)
    for (const int one : taken) ++shares.sharers[static_cast<std::size_t>(one)];
  return shares;
}

// "mlx5_3 and GPU 3 are below one PCI switch; 2 ranks share it".
std::string reason(const Machine& machine, Workplace place, const Nic& nic, int sharers) {
  const std::string text = how_near(machine, place, nic);
  return sharers > 1 ? text + fmt::format("; {} ranks share it", sharers) : text;
}

// Why a rank does not have the nearest interface: "; nearer mlx5_0 has its share, 2 ranks". Empty:
// none is nearer than those that it has.
std::string reason_to_go_farther(const Machine& machine, const std::vector<RailNic>& interfaces,
                                 const Shares& shares, std::size_t rank) {
  const std::vector<int>& far = shares.far[rank];
  const std::vector<int>& taken = shares.of_rank[rank];
  const auto distance = [&far](int one) { return far[static_cast<std::size_t>(one)]; };
  if (taken.empty()) return {};
  const int farthest = std::ranges::max(taken, {}, distance);
  int nearest = farthest;
  for (int one = 0; one < std::ssize(far); ++one)
    if (distance(one) < distance(nearest) && std::ranges::count(taken, one) == 0) nearest = one;
  if (nearest == farthest) return {};
  const auto index = static_cast<std::size_t>(nearest);
  const std::string name = nic_of(machine, interfaces[index]).name();
  const int ranks = shares.sharers[index];
  if (ranks == 0) return fmt::format("; nearer {} is too slow for a rank more", name);
  return fmt::format("; nearer {} has its share, {} {}", name, ranks,
                     ranks == 1 ? "rank" : "ranks");
}

}  // namespace

std::vector<NearRails> near_rails(const Machine& machine, int ranks,
                                  const std::vector<RailNic>& interfaces, RailPolicy policy) {
  const Shares shares = share(machine, ranks, interfaces, policy);
  std::vector<NearRails> all;
  for (std::size_t rank = 0; rank < shares.of_rank.size(); ++rank) {
    const Workplace place = usual_workplace(machine, static_cast<int>(rank), ranks);
    NearRails near;
    std::vector<std::string> reasons;
    for (const int taken : shares.of_rank[rank]) {
      const auto index = static_cast<std::size_t>(taken);
      near.rails.push_back(interfaces[index].rail);
      reasons.push_back(
          reason(machine, place, nic_of(machine, interfaces[index]), shares.sharers[index]));
    }
    near.reason = fmt::format("{}{}", fmt::join(reasons, "; "),
                              reason_to_go_farther(machine, interfaces, shares, rank));
    all.push_back(std::move(near));
  }
  return all;
}

}  // namespace weft
