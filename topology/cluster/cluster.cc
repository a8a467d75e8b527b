// Clusters made of equal machines, and what all clusters answer.
#include "topology/cluster/cluster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace weft {

namespace {

// Machines that are not on the rail have none.
std::vector<double> rates_of_members(const Rail& rail) {
  std::vector<double> rates;
  for (int machine = 0; machine < std::ssize(rail.nics); ++machine)
    if (rail.has(machine)) rates.push_back(rail.gbit_per_s[static_cast<std::size_t>(machine)]);
  return rates;
}

}  // namespace

std::string switch_name(int level, int number) {
  return level == 0 ? fmt::format("leaf {}", number)
                    : fmt::format("level {}, switch {}", level, number);
}

std::vector<double> Rail::below_switches(int level) const {
  const SwitchLevel& own = levels[static_cast<std::size_t>(level)];
  if (!own.below_gbit_per_s.empty()) return own.below_gbit_per_s;
  std::vector<double> below;
  for (std::size_t machine = 0; machine < gbit_per_s.size(); ++machine) {
    const auto number = static_cast<std::size_t>(switch_of(level, static_cast<int>(machine)));
    below.resize(std::max(below.size(), number + 1));
    below[number] += gbit_per_s[machine];
  }
  return below;
}

std::vector<double> Rail::up_from_switches(int level) const {
  const SwitchLevel& own = levels[static_cast<std::size_t>(level)];
  std::vector<double> up = below_switches(level);
  for (double& rate : up) rate = own.gbit_per_s != 0 ? own.gbit_per_s : rate / own.oversubscription;
  return up;
}

int Cluster::ranks() const {
  return machines.empty() ? 0 : machines.back().first_rank + machines.back().ranks;
}

int Cluster::machine_of(Rank rank) const {
  const auto after = std::ranges::upper_bound(machines, rank, {}, &ClusterMachine::first_rank);
  return static_cast<int>(after - machines.begin()) - 1;
}

Result<Cluster> uniform_cluster(const std::shared_ptr<const Machine>& machine, int count,
                                int ranks) {
  Cluster cluster;
  cluster.source = fmt::format("{} x {}", count, machine->source);
  const auto machines = static_cast<std::size_t>(count);
  for (int i = 0; i < count; ++i)
    cluster.machines.push_back({fmt::format("machine {}", i), machine, i * ranks, ranks});
  for (std::size_t n = 0; n < machine->nics.size(); ++n) {
    const Nic& nic = machine->nics[n];
    if (nic.mbit_per_s <= 0 || is_counted_elsewhere(nic, *machine)) continue;
    Rail rail;
    rail.name = nic.name();
    rail.nics.assign(machines, static_cast<int>(n));
    rail.gbit_per_s.assign(machines, carried_mbit_per_s(nic) / 1e3);
    cluster.rails.push_back(std::move(rail));
  }
  if (cluster.rails.empty() && count > 1) {
    const std::string why = machine->unreadable.empty()
                                ? ""
                                : fmt::format(" (unknown: {})", machine->unreadable.front());
    return Status(
        Code::unavailable,
        fmt::format("{}: no network interface with a known rate{}; correct it with a file "
                    "(docs/hardware.md)",
                    machine->source, why));
  }
  return cluster;
}

double SharedMemory::lane_gbyte_per_s(int ranks, int lanes) const {
  if (machine_gbyte_per_s <= 0) return combine_gbyte_per_s;
  const double rank = std::max(combine_gbyte_per_s, machine_gbyte_per_s / ranks);
  return std::min(combine_gbyte_per_s, rank / lanes);
}

std::string describe(const Rail& rail, int level) {
  const SwitchLevel& own = rail.levels[static_cast<std::size_t>(level)];
  const std::string of = level == 0 ? "leaf" : fmt::format("switch of level {}", level);
  const std::string apart =
      level == 0 && rail.stride > 1 ? fmt::format(" ({} apart)", rail.stride) : "";
  const std::string up = level + 1 == rail.depth() && !rail.has_top ? "not connected"
                         : own.gbit_per_s != 0
                             ? fmt::format("{} Gbit/s up", own.gbit_per_s)
                             : fmt::format("{}:1 oversubscribed", own.oversubscription);
  return fmt::format("{} machines a {}{}, {}", own.machines, of, apart, up);
}

namespace {

// Of each kind of machine.
std::string remarks_on_machines(const Cluster& cluster) {
  std::string text;
  std::set<const Machine*> seen;
  for (const ClusterMachine& machine : cluster.machines) {
    const Machine& hardware = *machine.hardware;
    if (!seen.insert(&hardware).second) continue;
    for (const Remark& remark : remarks_on(hardware)) {
      text += fmt::format("{}: {}: {}\n", hardware.source, remark.about,
                          fmt::join(remark.phrases, "; "));
    }
  }
  return text;
}

}  // namespace

std::string describe(const Cluster& cluster) {
  std::string text = fmt::format("{}: {} machines, {} ranks\n", cluster.source,
                                 cluster.machines.size(), cluster.ranks());
  for (const Rail& rail : cluster.rails) {
    const std::vector<double> rates = rates_of_members(rail);
    const double least = rates.empty() ? 0 : std::ranges::min(rates);
    const double most = rates.empty() ? 0 : std::ranges::max(rates);
    text += fmt::format("rail {}: {} machines, {} Gbit/s, {} us", rail.name, rates.size(),
                        least == most ? fmt::format("{}", most) : fmt::format("{}–{}", least, most),
                        rail.latency_us);
    for (int level = 0; level < rail.depth(); ++level) text += ", " + describe(rail, level);
    text += "\n";
  }
  for (const std::string& remark : cluster.remarks) text += remark + "\n";
  return text + remarks_on_machines(cluster);
}

}  // namespace weft
