// Machines of a kind share their hardware; rails and their leaves.
#include "topology/cluster/fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace weft {
namespace {

void add_machines(const HostFabric& fabric, Cluster& cluster) {
  std::map<std::vector<std::pair<std::string, double>>, std::shared_ptr<const Machine>> kinds;
  int rank = 0;
  for (const FabricHost& host : fabric.hosts) {
    std::vector<std::pair<std::string, double>> key;
    for (const FabricInterface& each : host.interfaces)
      key.emplace_back(each.name, each.gbit_per_s);
    std::shared_ptr<const Machine>& known = kinds[key];
    if (known == nullptr) {
      auto machine = std::make_shared<Machine>();
      machine->source = fmt::format("{} of {}", host.name, fabric.source);
      for (const auto& [name, gbit] : key) {
        Nic nic;
        nic.rdma = name;
        nic.mbit_per_s = static_cast<int>(gbit * 1000);
        machine->nics.push_back(std::move(nic));
      }
      known = std::move(machine);
    }
    cluster.machines.push_back({host.name, known, rank, host.ranks});
    rank += host.ranks;
  }
}

// The part of what hosts send to a leaf that comes over this rail.
double share_of_rail(const HostFabric& fabric, std::size_t begin, std::size_t end, const Rail& rail,
                     const std::string& leaf) {
  double on_rail = 0, on_all = 0;
  for (std::size_t host = begin; host < end; ++host) {
    on_rail += rail.gbit_per_s[host];
    for (const FabricInterface& each : fabric.hosts[host].interfaces)
      if (each.leaf == leaf) on_all += each.gbit_per_s;
  }
  return on_all > 0 ? on_rail / on_all : 0;
}

// The model has leaves of equally many hosts, in the order of the hosts; the last may have fewer.
void add_leaves(const HostFabric& fabric, const std::vector<std::string>& leaves, Rail& rail,
                Cluster& cluster) {
  const std::set<std::string> all(leaves.begin(), leaves.end());
  if (all.size() < 2) return;
  const auto machines = static_cast<std::size_t>(std::ranges::count(leaves, leaves.front()));
  double up = 0;
  std::set<std::string> seen;
  for (std::size_t begin = 0; begin < leaves.size(); begin += machines) {
    const std::string& leaf = leaves[begin];
    const std::size_t end = std::min(begin + machines, leaves.size());
    const bool is_one = std::all_of(leaves.begin() + static_cast<std::ptrdiff_t>(begin),
                                    leaves.begin() + static_cast<std::ptrdiff_t>(end),
                                    [&leaf](const std::string& other) { return other == leaf; });
    if (!is_one || leaf.empty() || !seen.insert(leaf).second) {
      cluster.remarks.push_back(fmt::format(
          "rail {}: leaves have different hosts than the model can tell; it counts as one switch",
          rail.name));
      return;
    }
    const auto own = fabric.up_gbit_per_s.find(leaf);
    const double gbit = own == fabric.up_gbit_per_s.end()
                            ? 0
                            : own->second * share_of_rail(fabric, begin, end, rail, leaf);
    up = begin == 0 ? gbit : std::min(up, gbit);
  }
  if (up <= 0) {
    cluster.remarks.push_back(
        fmt::format("rail {}: a leaf has no link to another switch", rail.name));
    return;
  }
  SwitchLevel level;
  level.machines = static_cast<int>(machines);
  level.gbit_per_s = up;
  level.latency_us = fabric.level_us;
  rail.levels.push_back(level);
}

}  // namespace

Cluster cluster_of(const HostFabric& fabric) {
  Cluster cluster;
  cluster.source = fabric.source;
  add_machines(fabric, cluster);
  std::size_t most = 0;
  for (const FabricHost& host : fabric.hosts) most = std::max(most, host.interfaces.size());
  for (std::size_t k = 0; k < most; ++k) {
    Rail rail;
    rail.name = std::to_string(k);
    rail.latency_us = fabric.latency_us;
    std::vector<std::string> leaves;
    for (const FabricHost& host : fabric.hosts) {
      const bool has = k < host.interfaces.size();
      rail.nics.push_back(has ? static_cast<int>(k) : -1);
      rail.gbit_per_s.push_back(has ? host.interfaces[k].gbit_per_s : 0);
      leaves.push_back(has ? host.interfaces[k].leaf : std::string());
    }
    add_leaves(fabric, leaves, rail, cluster);
    cluster.rails.push_back(std::move(rail));
  }
  return cluster;
}

}  // namespace weft
