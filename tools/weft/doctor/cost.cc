// The cluster as it is, and with the finding's interfaces mended.
#include "tools/weft/doctor/cost.h"

#include <algorithm>
#include <map>
#include <string>

#include "tools/weft/predict/rates.h"

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

Result<double> predicted_us(const std::vector<HostFacts>& hosts, const Finding& finding,
                            State state, int ranks) {
  RatedScene scene;
  for (const HostFacts& facts : hosts)
    scene.hosts.push_back({facts.host, rates_of(facts, finding, state)});
  const HostFacts& front = hosts.front();
  scene.cores = 0;
  for (const NodeFacts& node : front.nodes) scene.cores += static_cast<int>(node.cpus.size());
  scene.ranks = ranks;
  scene.is_rdma = !carriers(front).empty() && !carriers(front).front()->rdma.empty();
  scene.has_gpus = !front.gpus.empty();
  scene.bytes = kCostBytes;
  return allreduce_us(scene);
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
