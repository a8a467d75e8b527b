// links: the table, rail by rail: interfaces out, interfaces in, each level's switches up, then
// down; then memory.
#include "scheduler/simulate/links.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {
namespace {

constexpr double kBytesPerUsOfGbit = 125;
constexpr double kBytesPerUsOfGbyte = 1e3;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

// Of each `count` numbers in a row.
std::vector<double> summed(const std::vector<double>& numbers, int count) {
  std::vector<double> sums((numbers.size() - 1) / at(count) + 1);
  for (std::size_t i = 0; i < numbers.size(); ++i) sums[i / at(count)] += numbers[i];
  return sums;
}

}  // namespace

namespace simulator {

Links::Links(const SimulatedJob& job, const SimulateOptions& options, int alike) : job_(job) {
  for (Rank rank = 0; rank < job.ranks; ++rank)
    machine_.push_back(job.placement.machine_of(rank, job.cluster));
  machines_ = 1 + *std::max_element(machine_.begin(), machine_.begin() + alike);
  const auto rails = static_cast<int>(job.cluster.rails.size());
  for (int rail = 0; rail < rails; ++rail) add_rail(rail);
  add_memory(options, alike);
}

std::uint32_t Links::add(Link::Kind kind, int rail, int count, int level) {
  const auto base = static_cast<std::uint32_t>(table_.size());
  for (int number = 0; number < count; ++number) table_.push_back({kind, rail, number, level});
  return base;
}

void Links::add_rail(int rail) {
  const Rail& of = job_.cluster.rails[at(rail)];
  RailBase base;
  base.out = add(Link::Kind::nic_out, rail, machines_);
  base.in = add(Link::Kind::nic_in, rail, machines_);
  for (int machine = 0; machine < machines_; ++machine) {
    const double rate = of.gbit_per_s[at(machine)] * kBytesPerUsOfGbit;
    table_[base.out + folded(machine)].bytes_per_us = rate;
    table_[base.in + folded(machine)].bytes_per_us = rate;
  }
  rails_.push_back(base);
  add_levels(rail);
  most_on_path_ = std::max(most_on_path_, 2 + 2 * rails_.back().levels.size());
}

// What comes from below is by all machines there, simulated or not, and by what the level below
// lets through.
void Links::add_levels(int rail) {
  const Rail& of = job_.cluster.rails[at(rail)];
  std::vector<double> offered;
  for (int level = 0; level < of.depth(); ++level) {
    const std::vector<double> up = of.up_from_switches(level);
    offered = level == 0 ? of.below_switches(0) : summed(offered, of.fan_in(level));
    if (offered.size() == 1) return;  // nothing goes up through that
    constexpr double kRounding = 1e-12;
    bool is_bound = false;
    for (std::size_t number = 0; number < offered.size(); ++number) {
      is_bound = is_bound || up[number] < offered[number] * (1 - kRounding);
      offered[number] = std::min(offered[number], up[number]);
    }
    if (is_bound) add_level(rail, level, up);
  }
}

void Links::add_level(int rail, int level, const std::vector<double>& gbit_per_s) {
  const Rail& of = job_.cluster.rails[at(rail)];
  int switches = 0;
  for (int machine = 0; machine < machines_; ++machine)
    switches = std::max(switches, of.switch_of(level, machine) + 1);
  const std::uint32_t up = add(Link::Kind::up, rail, switches, level);
  const std::uint32_t down = add(Link::Kind::down, rail, switches, level);
  for (std::uint32_t number = 0; number < static_cast<std::uint32_t>(switches); ++number) {
    const double rate = gbit_per_s[number] * kBytesPerUsOfGbit;
    table_[up + number].bytes_per_us = rate;
    table_[down + number].bytes_per_us = rate;
  }
  rails_[at(rail)].levels.push_back({level, up, down});
}

void Links::add_memory(const SimulateOptions& options, int alike) {
  const SharedMemory& memory = job_.cluster.memory;
  int most = 0;
  for (int machine = 0; machine < machines_; ++machine)
    most = std::max(most, job_.cluster.machines[at(machine)].ranks);
  if (memory.machine_gbyte_per_s <= 0 || most * memory.gbyte_per_s <= memory.machine_gbyte_per_s)
    return;
  memory_base_ = add(Link::Kind::memory, -1, machines_);
  rank_memory_base_ = add(Link::Kind::rank_memory, -1, alike);
  for (Link& link : table_) {
    if (link.kind == Link::Kind::memory)
      link.bytes_per_us = memory.machine_gbyte_per_s * kBytesPerUsOfGbyte;
    if (link.kind == Link::Kind::rank_memory)
      link.bytes_per_us = memory.gbyte_per_s * kBytesPerUsOfGbyte;
  }
  for (const Straggler& straggler : options.stragglers)
    table_[rank_memory_base_ + static_cast<std::uint32_t>(straggler.rank)].bytes_per_us /=
        straggler.slowdown;
}

Path Links::path(Rank from, Rank to, int rail) const {
  const RailBase& base = rails_[at(rail)];
  const int source = machine_of(from);
  const int sink = machine_of(to);
  Path path{{base.out + folded(source), base.in + folded(sink)}, 2, rail};
  const Rail& of = job_.cluster.rails[at(rail)];
  for (const LevelBase& level : base.levels) {
    if (of.switch_of(level.level, source) == of.switch_of(level.level, sink)) break;
    const auto number = [&](int machine) {
      return static_cast<std::uint32_t>(
          of.switch_of(level.level, static_cast<int>(folded(machine))));
    };
    path.links[path.count++] = level.up + number(source);
    path.links[path.count++] = level.down + number(sink);
  }
  return path;
}

double Links::latency_us(Rank from, Rank to, int rail) const {
  if (rail < 0) return job_.cluster.memory.latency_us;
  return job_.cluster.rails[at(rail)].latency_between(machine_of(from), machine_of(to));
}

Path Links::memory_path(Rank reader) const {
  return {{rank_memory_base_ + static_cast<std::uint32_t>(reader),
           memory_base_ + folded(machine_of(reader))},
          2,
          -1};
}

}  // namespace simulator

std::string name(const Link& link, const Cluster& cluster) {
  const auto of_machine = [&](std::string_view what) {
    return fmt::format("rail {}: {} {}", cluster.rails[at(link.rail)].name,
                       cluster.machines[at(link.number)].name, what);
  };
  const auto of_switch = [&](std::string_view what) {
    return fmt::format("rail {}: {} {}", cluster.rails[at(link.rail)].name,
                       switch_name(link.level, link.number), what);
  };
  switch (link.kind) {
    case Link::Kind::nic_out:
      return of_machine("sends");
    case Link::Kind::nic_in:
      return of_machine("receives");
    case Link::Kind::up:
      return of_switch("up");
    case Link::Kind::down:
      return of_switch("down");
    case Link::Kind::rank_memory:
      return link.lane < 0 ? fmt::format("rank {} reads", link.number)
                           : fmt::format("rank {}, lane {} reads", link.number, link.lane);
    case Link::Kind::memory:
      return fmt::format("memory of {}", cluster.machines[at(link.number)].name);
  }
  return "unknown";
}

std::string group_name(const Link& link, const Cluster& cluster) {
  const auto of_rail = [&](std::string_view what) {
    return fmt::format("rail {} {}", cluster.rails[at(link.rail)].name, what);
  };
  switch (link.kind) {
    case Link::Kind::nic_out:
      return of_rail("sending");
    case Link::Kind::nic_in:
      return of_rail("receiving");
    case Link::Kind::up:
      return of_rail(link.level == 0 ? "up from leaves"
                                     : fmt::format("up from level {}", link.level));
    case Link::Kind::down:
      return of_rail(link.level == 0 ? "down to leaves"
                                     : fmt::format("down to level {}", link.level));
    case Link::Kind::rank_memory:
      return "reading memory";
    case Link::Kind::memory:
      return "memory of machines";
  }
  return "unknown";
}

}  // namespace weft
