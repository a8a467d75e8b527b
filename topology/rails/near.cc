// Where ranks work, how far that is from the machine's interfaces, and the sentence that says so.
#include "topology/rails/near.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "topology/rails/share.h"

namespace weft {
namespace {

// Near interfaces that are so many times slower than the machine's fastest are not used: a message
// cut over all would gain less than their latency costs.
constexpr double kTooSlow = 8;

// What a rank works with: its GPU, or the NUMA node on which its cores are.
struct Workplace {
  const Gpu* gpu = nullptr;
  const NumaNode* node = nullptr;

  [[nodiscard]] std::string name() const {
    return gpu != nullptr ? fmt::format("GPU {}", gpu->index) : fmt::format("node {}", node->index);
  }
  [[nodiscard]] bool is_told() const { return gpu != nullptr || node != nullptr; }
  [[nodiscard]] Nearness nearness(const Nic& nic) const {
    return gpu != nullptr ? distance(nic.place, gpu->place).nearness : distance(nic.place, *node);
  }
  // Nearness first, then the bridges on the way.
  [[nodiscard]] int far(const Nic& nic) const {
    constexpr int kMoreThanBridges = 1000;
    if (!is_told()) return 0;
    const int bridges = gpu != nullptr ? distance(nic.place, gpu->place).bridges : 0;
    return kMoreThanBridges * static_cast<int>(nearness(nic)) + bridges;
  }
};

// As launchers bind: GPUs in turn; without any, the cores in blocks.
Workplace workplace(const Machine& machine, int rank, int ranks) {
  if (!machine.gpus.empty())
    return {&machine.gpus[static_cast<std::size_t>(rank) % machine.gpus.size()], nullptr};
  const auto sum = [](int cores, const NumaNode& node) { return cores + node.cores; };
  const int cores = std::accumulate(machine.nodes.begin(), machine.nodes.end(), 0, sum);
  int first = static_cast<int>(std::int64_t{cores} * rank / ranks);
  for (const NumaNode& node : machine.nodes) {
    if (first < node.cores) return {nullptr, &node};
    first -= node.cores;
  }
  return {};
}

const Nic& nic_of(const Machine& machine, const RailNic& interface) {
  return machine.nics[static_cast<std::size_t>(interface.nic)];
}

// "mlx5_3 and GPU 3 are below one PCI switch, shared by 2 ranks".
std::string reason(const Workplace& place, const Nic& nic, int sharers) {
  std::string text = nic.name();
  const bool is_nic_told = !nic.place.address.empty() || nic.place.numa_node >= 0;
  if (place.is_told() && is_nic_told) {
    text += fmt::format(" and {} are {}", place.name(), description(place.nearness(nic)));
  } else {
    text += ", how near is not told";
  }
  return sharers > 1 ? text + fmt::format("; {} ranks share it", sharers) : text;
}

// The interfaces fit for a share, and who gets which.
struct Shares {
  std::vector<RailNic> interfaces;
  std::vector<std::vector<int>> far;  // by rank and interface
  std::vector<std::vector<int>> of_rank;
  std::vector<int> sharers;
};

Shares share(const Machine& machine, int ranks, const std::vector<RailNic>& all) {
  Shares shares;
  const double fastest =
      all.empty() ? 0 : std::ranges::max(all, {}, &RailNic::gbit_per_s).gbit_per_s;
  std::ranges::copy_if(all, std::back_inserter(shares.interfaces),
                       [&](const RailNic& one) { return one.gbit_per_s * kTooSlow >= fastest; });
  std::vector<double> rates;
  for (const RailNic& one : shares.interfaces) rates.push_back(one.gbit_per_s);
  shares.far.resize(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const Workplace place = workplace(machine, rank, ranks);
    for (const RailNic& one : shares.interfaces)
      shares.far[static_cast<std::size_t>(rank)].push_back(place.far(nic_of(machine, one)));
  }
  shares.of_rank = share_interfaces(shares.far, rates);
  shares.sharers.assign(rates.size(), 0);
  for (const std::vector<int>& taken : shares.of_rank)
    for (const int one : taken) ++shares.sharers[static_cast<std::size_t>(one)];
  return shares;
}

// Why a rank does not have the nearest interface: "; nearer mlx5_0 has its share, 2 ranks". Empty:
// none is nearer than those that it has.
std::string reason_to_go_farther(const Machine& machine, const Shares& shares, std::size_t rank) {
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
  const std::string name = nic_of(machine, shares.interfaces[index]).name();
  const int ranks = shares.sharers[index];
  if (ranks == 0) return fmt::format("; nearer {} is too slow for a rank more", name);
  return fmt::format("; nearer {} has its share, {} {}", name, ranks,
                     ranks == 1 ? "rank" : "ranks");
}

}  // namespace

std::vector<NearRails> near_rails(const Machine& machine, int ranks,
                                  const std::vector<RailNic>& interfaces) {
  const Shares shares = share(machine, ranks, interfaces);
  std::vector<NearRails> all;
  for (int rank = 0; rank < ranks; ++rank) {
    NearRails near;
    std::vector<std::string> reasons;
    for (const int taken : shares.of_rank[static_cast<std::size_t>(rank)]) {
      const RailNic& one = shares.interfaces[static_cast<std::size_t>(taken)];
      near.rails.push_back(one.rail);
      reasons.push_back(reason(workplace(machine, rank, ranks), nic_of(machine, one),
                               shares.sharers[static_cast<std::size_t>(taken)]));
    }
    near.reason =
        fmt::format("{}{}", fmt::join(reasons, "; "),
                    reason_to_go_farther(machine, shares, static_cast<std::size_t>(rank)));
    all.push_back(std::move(near));
  }
  return all;
}

}  // namespace weft
