// Clusters made of equal machines, and what all clusters answer.
#include "topology/cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {

namespace {

// A part of a bonded interface whose rate that interface has, too.
bool is_counted_by_bond(const Nic& nic, const Machine& machine) {
  return !nic.bond.empty() && nic.netdev != nic.bond &&
         std::ranges::any_of(machine.nics, [&nic](const Nic& other) {
           return other.netdev == nic.bond && other.mbit_per_s > 0;
         });
}

// Whether `other` is the card of which `nic` is a virtual function; where nobody tells which one
// that is, one beside it.
bool is_card_of(const Nic& other, const Nic& nic) {
  if (other.is_virtual_function || other.mbit_per_s <= 0) return false;
  if (!nic.physical_function.empty()) return other.place.address == nic.physical_function;
  return other.place.host_bridge == nic.place.host_bridge &&
         other.place.bridges == nic.place.bridges;
}

// A virtual function whose wire another interface has, too: its card, or an earlier function of it.
bool is_counted_by_card(const Nic& nic, const Machine& machine) {
  if (!nic.is_virtual_function) return false;
  for (const Nic& other : machine.nics) {
    if (is_card_of(other, nic)) return true;
  }
  for (const Nic& other : machine.nics) {
    if (&other == &nic) return false;
    if (other.mbit_per_s > 0 && !nic.physical_function.empty() &&
        other.physical_function == nic.physical_function && other.port == nic.port)
      return true;
  }
  return false;
}

}  // namespace

std::vector<double> Rail::below_leaves() const {
  if (!leaf_gbit_per_s.empty()) return leaf_gbit_per_s;
  std::vector<double> below;
  for (std::size_t machine = 0; machine < gbit_per_s.size(); ++machine) {
    const auto leaf = static_cast<std::size_t>(leaf_of(static_cast<int>(machine)));
    below.resize(std::max(below.size(), leaf + 1));
    below[leaf] += gbit_per_s[machine];
  }
  return below;
}

int Cluster::ranks() const {
  return machines.empty() ? 0 : machines.back().first_rank + machines.back().ranks;
}

int Cluster::machine_of(Rank rank) const {
  const auto after = std::ranges::upper_bound(machines, rank, {}, &ClusterMachine::first_rank);
  return static_cast<int>(after - machines.begin()) - 1;
}

Result<Cluster> uniform_cluster(std::shared_ptr<const Machine> machine, int count, int ranks) {
  Cluster cluster;
  cluster.source = fmt::format("{} x {}", count, machine->source);
  const auto machines = static_cast<std::size_t>(count);
  for (int i = 0; i < count; ++i)
    cluster.machines.push_back({fmt::format("machine {}", i), machine, i * ranks, ranks});
  for (std::size_t n = 0; n < machine->nics.size(); ++n) {
    const Nic& nic = machine->nics[n];
    if (nic.mbit_per_s <= 0 || is_counted_by_card(nic, *machine) ||
        is_counted_by_bond(nic, *machine))
      continue;
    Rail rail;
    rail.name = nic.name();
    rail.nics.assign(machines, static_cast<int>(n));
    rail.gbit_per_s.assign(machines, nic.mbit_per_s / 1e3);
    cluster.rails.push_back(std::move(rail));
  }
  if (cluster.rails.empty() && count > 1) {
    const std::string untold =
        machine->untold.empty() ? "" : fmt::format(" (not told: {})", machine->untold.front());
    return Status(
        Code::unavailable,
        fmt::format("{}: no network interface with a known rate{}; correct it with a file "
                    "(docs/hardware.md)",
                    machine->source, untold));
  }
  return cluster;
}

std::string describe(const Cluster& cluster) {
  std::string text = fmt::format("{}: {} machines, {} ranks\n", cluster.source,
                                 cluster.machines.size(), cluster.ranks());
  for (const Rail& rail : cluster.rails) {
    const auto count = std::ranges::count_if(rail.nics, [](int nic) { return nic >= 0; });
    const auto [least, most] = std::ranges::minmax(rail.gbit_per_s);
    text += fmt::format("rail {}: {} machines, {} Gbit/s, {} us", rail.name, count,
                        least == most ? fmt::format("{}", most) : fmt::format("{}–{}", least, most),
                        rail.latency_us);
    if (rail.machines_per_leaf != 0) {
      text += fmt::format(", {} machines a leaf{}, {}", rail.machines_per_leaf,
                          rail.leaf_stride == 1 ? "" : fmt::format(" ({} apart)", rail.leaf_stride),
                          rail.has_spine ? fmt::format("{}:1 oversubscribed", rail.oversubscription)
                                         : "leaves not connected");
    }
    text += "\n";
  }
  return text;
}

}  // namespace weft
