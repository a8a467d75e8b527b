// The cluster as it is, and with the finding's interfaces mended.
#include "tools/weft/doctor/cost.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "scheduler/stripes/stripes.h"
#include "tools/weft/predict/judge.h"
#include "tools/weft/predict/options.h"

namespace weft {
namespace {

constexpr std::size_t kCostBytes = std::size_t{64} << 20;
constexpr std::size_t kMostHostsOfCost = 16;  // more would take seconds and tell the same
constexpr int kMostRanksOfHost = 8;           // of a host

// The rates of a host's interfaces by name, in Gbit/s.
using Rates = std::map<std::string, double>;

enum class State : bool { as_it_is, mended };

Rates rates_of(const HostFacts& facts, const Finding& finding, State state) {
  Rates rates;
  for (const NicFacts* nic : carriers(facts)) rates[nic->name] = carried_gbit_per_s(*nic);
  for (const RateChange& change : finding.rates) {
    if (change.host == facts.host)
      rates[change.nic] = state == State::mended ? change.gbit_mended : change.gbit_now;
  }
  return rates;
}

int ranks_of(const HostFacts& facts) {
  const std::size_t ranks = facts.ranks.empty() ? facts.gpus.size() : facts.ranks.size();
  return std::clamp(static_cast<int>(ranks), 1, kMostRanksOfHost);
}

std::vector<HostFacts> some_of(std::span<const HostFacts> hosts, const Finding& finding) {
  std::vector<HostFacts> some;
  const auto is_concerned = [&finding](const HostFacts& facts) {
    return std::ranges::any_of(finding.rates,
                               [&](const RateChange& change) { return change.host == facts.host; });
  };
  for (const bool concerned : {true, false}) {
    for (const HostFacts& facts : hosts)
      if (is_concerned(facts) == concerned && some.size() < kMostHostsOfCost) some.push_back(facts);
  }
  if (some.size() == 1) some.push_back(some.front());
  return some;
}

Cluster cluster_of(const std::vector<HostFacts>& hosts, const std::vector<Rates>& rates,
                   int ranks) {
  constexpr double kMbit = 1e3, kRdmaUs = 2, kOtherUs = 20;
  std::set<std::string> names;
  for (const Rates& of_host : rates)
    for (const auto& [name, gbit] : of_host) names.insert(name);
  const bool is_rdma =
      !carriers(hosts.front()).empty() && !carriers(hosts.front()).front()->rdma.empty();
  Cluster cluster;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    auto machine = std::make_shared<Machine>();
    machine->source = hosts[i].host;
    for (const std::string& name : names) {
      Nic nic;
      (is_rdma ? nic.rdma : nic.netdev) = name;
      const auto rate = rates[i].find(name);
      nic.mbit_per_s =
          rate == rates[i].end() ? 0 : static_cast<int>(std::lround(rate->second * kMbit));
      machine->nics.push_back(nic);
    }
    cluster.machines.push_back({std::to_string(i), machine, static_cast<int>(i) * ranks, ranks});
  }
  int number = 0;
  for (const std::string& name : names) {
    Rail rail;
    rail.name = name;
    rail.latency_us = is_rdma ? kRdmaUs : kOtherUs;
    for (const ClusterMachine& machine : cluster.machines) {
      const double gbit =
          machine.hardware->nics[static_cast<std::size_t>(number)].mbit_per_s / kMbit;
      rail.nics.push_back(gbit > 0 ? number : -1);
      rail.gbit_per_s.push_back(gbit);
    }
    // One that a single host has leads nowhere.
    if (std::ranges::count(rail.nics, number) > 1) cluster.rails.push_back(std::move(rail));
    ++number;
  }
  // Where there are GPUs they combine, faster than any network.
  constexpr double kGpuGbyte = 500;
  if (!hosts.front().gpus.empty())
    cluster.memory.combine_gbyte_per_s = cluster.memory.gbyte_per_s = kGpuGbyte;
  return cluster;
}

Result<double> predicted_us(const std::vector<HostFacts>& hosts, const Finding& finding,
                            State state, int ranks) {
  std::vector<Rates> rates;
  for (const HostFacts& facts : hosts) rates.push_back(rates_of(facts, finding, state));
  const Cluster cluster = cluster_of(hosts, rates, ranks);
  WEFT_ASSIGN(const PredictScene scene,
              set_scene(cluster, Placement::identity(cluster.ranks()), RailPolicy::automatic, "",
                        Collective::allreduce));
  int cores = 0;
  for (const NodeFacts& node : hosts.front().nodes) cores += static_cast<int>(node.cpus.size());
  PredictedCase of;
  of.bytes = kCostBytes;
  of.lanes = automatic_lanes(static_cast<int>(cluster.rails.size()), ranks, std::max(cores, 1));
  SimulateOptions options;
  options.piece_bytes = network_piece(cluster);
  return mean_us(of, scene, options);
}

}  // namespace

std::optional<Cost> cost_of(const Finding& finding, std::span<const HostFacts> hosts) {
  constexpr double kLeast = 1.01;
  if (finding.rates.empty() || hosts.empty()) return std::nullopt;
  for (const RateChange& change : finding.rates)
    if (change.gbit_mended <= 0) return std::nullopt;
  const std::vector<HostFacts> some = some_of(hosts, finding);
  int ranks = kMostRanksOfHost;
  for (const HostFacts& facts : some) {
    ranks = std::min(ranks, ranks_of(facts));
    for (const NicFacts* nic : carriers(facts))
      if (carried_gbit_per_s(*nic) <= 0) return std::nullopt;
  }
  const Result<double> now = predicted_us(some, finding, State::as_it_is, ranks);
  const Result<double> mended = predicted_us(some, finding, State::mended, ranks);
  if (!now.ok() || !mended.ok() || *mended <= 0 || *now < *mended * kLeast) return std::nullopt;
  const int count = static_cast<int>(some.size());
  return Cost{kCostBytes, count, count * ranks, *now, *mended};
}

}  // namespace weft
