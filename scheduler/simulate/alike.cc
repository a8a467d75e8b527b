// alike: the machines first, then the plans.
#include "scheduler/simulate/alike.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::simulator {
namespace {

// Comparing plans means making them: about a second.
constexpr std::size_t kMostSteps = 8'000'000;
// Else so many ranks, spread over all, speak for the others.
constexpr int kFewest = 32;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

// Is the switch of the machine `period` further on as far from its own, and alike, for every machine
// in use?
bool repeats(const Rail& rail, int level, int machines, int period) {
  const auto switch_of = [&](int machine) { return rail.switch_of(level, machine); };
  const int shift = switch_of(period) - switch_of(0);
  for (int machine = 0; machine + period < machines; ++machine)
    if (switch_of(machine + period) - switch_of(machine) != shift) return false;
  // The last group must be whole, and no switch may reach beyond it, unless it is the only one in
  // use: nothing goes up through that.
  if (shift <= 0) {
    for (int machine = 1; machine < machines; ++machine)
      if (switch_of(machine) != switch_of(0)) return false;
    return true;
  }
  const std::vector<double> up = rail.up_from_switches(level);
  for (int machine = 0; machine + period < machines; ++machine)
    if (up[at(switch_of(machine + period))] != up[at(switch_of(machine))]) return false;
  return true;
}

// Is the machine `period` further on the same, for every machine in use?
bool repeats(const Rail& rail, int machines, int period) {
  for (int machine = 0; machine + period < machines; ++machine) {
    const int next = machine + period;
    if (rail.has(machine) != rail.has(next) ||
        rail.gbit_per_s[at(machine)] != rail.gbit_per_s[at(next)])
      return false;
  }
  for (int level = 0; level < rail.depth(); ++level)
    if (!repeats(rail, level, machines, period)) return false;
  return true;
}

// The least number of machines after which the cluster repeats; 0: it does not.
int machine_period(const Cluster& cluster, int machines) {
  for (int period = 1; period < machines; ++period) {
    if (machines % period != 0) continue;
    const auto holds = [&](const Rail& rail) { return repeats(rail, machines, period); };
    if (std::ranges::all_of(cluster.rails, holds)) return period;
  }
  return 0;
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 29);
}

// A rank's program with peers as distances and slices as numbers of blocks.
class Print {
 public:
  Print(const Planned& planned, int ranks) : planned_(planned), ranks_(ranks) {}

  [[nodiscard]] std::uint64_t hash() const {
    std::uint64_t hash = planned_.view.in.size();
    for (const Partition& partition : planned_.plan.partition)
      hash = mixed(mixed(hash, static_cast<std::uint64_t>(partition.kind)), partition.blocks);
    for (const Step& step : planned_.plan.steps) hash = with(hash, step);
    return hash;
  }

 private:
  [[nodiscard]] std::uint64_t distance(Rank peer) const {
    return static_cast<std::uint64_t>((peer - planned_.view.rank + ranks_) % ranks_);
  }
  [[nodiscard]] std::uint64_t with(std::uint64_t hash, const Step& step) const {
    const Plan& plan = planned_.plan;
    hash = mixed(hash, static_cast<std::uint64_t>(step.kind));
    hash = mixed(mixed(hash, step.slice.last - step.slice.first), step.count);
    hash = mixed(hash, static_cast<std::uint64_t>(step.slice.buffer));
    for (std::uint32_t i = 0; i < step.hazard_count; ++i)
      hash = mixed(hash, plan.hazards[step.hazard_first + i]);
    // In which order edges are served and terms summed does not matter here, and differs: it is the
    // order of ranks.
    std::uint64_t terms = 0;
    if (step.kind == Step::Kind::send) {
      for (std::uint32_t i = 0; i < step.count; ++i) {
        const std::uint32_t edge = plan.edges[step.first + i];
        const int rail = plan.rails.empty() ? kAnyRail : plan.rails[edge];
        terms += mixed(7 + static_cast<std::uint64_t>(rail), distance(planned_.view.out[edge]));
      }
      return mixed(hash, terms);
    }
    for (std::uint32_t i = 0; i < step.count; ++i) {
      const Operand& operand = plan.operands[step.first + i];
      const bool is_local = operand.kind == Operand::Kind::local;
      terms += mixed(7, is_local ? 0 : 1 + distance(planned_.view.in[operand.edge]));
    }
    return mixed(hash, terms);
  }

  const Planned& planned_;
  int ranks_;
};

class Comparison {
 public:
  // Where ranks have several lanes, each rank of the job is a lane.
  Comparison(const SimulatedJob& job, int group, int lanes)
      : job_(job), group_(group), lanes_(lanes) {}

  Alike compare() {
    const Planned first = job_.plan(0);
    const std::size_t steps = std::max<std::size_t>(first.plan.steps.size(), 1);
    const bool all = steps * at(job_.ranks) <= kMostSteps;
    for (Rank rank = 0; rank < group_; ++rank) prints_.push_back(print(job_.plan(rank)));
    const int stride = all ? 1 : std::max(1, job_.ranks / kFewest - 1);
    int compared = 0;
    for (Rank rank = group_; rank < job_.ranks; rank += stride, ++compared) {
      const Planned planned = job_.plan(rank);
      if (print(planned) != prints_[at(rank % group_)] || !same_rails(planned.view)) {
        return {job_.ranks,
                fmt::format("rank {} is not like rank {}", rank / lanes_, rank % group_ / lanes_)};
      }
    }
    const std::string who =
        group_ == lanes_ ? "all ranks" : fmt::format("every {} ranks", group_ / lanes_);
    return {group_, all ? fmt::format("{} are alike", who)
                        : fmt::format("{} are alike; {} {} plans were compared", who, compared,
                                      lanes_ == 1 ? "ranks'" : "lanes'")};
  }

 private:
  [[nodiscard]] std::uint64_t print(const Planned& planned) const {
    return Print(planned, job_.ranks).hash();
  }
  // Do its bytes take the rails that those of its like take?
  [[nodiscard]] bool same_rails(const View& view) const {
    const Rank like = view.rank % group_;
    std::vector<int> own, others;
    for (const Rank peer : view.out) {
      const Rank others_peer = (peer - view.rank + like + job_.ranks) % job_.ranks;
      job_.rails.rails_between(view.rank, peer, own);
      job_.rails.rails_between(like, others_peer, others);
      if (own != others) return false;
    }
    return true;
  }

  const SimulatedJob& job_;
  int group_;
  int lanes_;
  std::vector<std::uint64_t> prints_;
};

bool is_identity(const Placement& placement, int ranks) {
  for (Rank rank = 0; rank < ranks; ++rank)
    if (placement.seat[at(rank)] != rank) return false;
  return true;
}

}  // namespace

Alike find_alike(const SimulatedJob& job, const SimulateOptions& options) {
  const auto none = [&](std::string why) { return Alike{job.ranks, std::move(why)}; };
  if (!options.collapse) return none("every rank is simulated, as asked");
  if (!options.stragglers.empty()) return none("ranks differ: some are late or slow");
  if (!is_identity(job.placement, job.ranks))
    return none("ranks are placed in an order of their own");
  const int each = job.cluster.machines.front().ranks;
  const int machines = job.ranks / each;
  for (int machine = 0; machine < machines; ++machine)
    if (job.cluster.machines[at(machine)].ranks != each)
      return none("machines have different numbers of ranks");
  if (job.ranks % each != 0) return none("the last machine is not full");
  const int period = machine_period(job.cluster, machines);
  if (period == 0) return none("the machines do not repeat");
  return Comparison(job, period * each, options.lanes).compare();
}

}  // namespace weft::simulator
