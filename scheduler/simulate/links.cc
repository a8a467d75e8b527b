// links: the table, rail by rail: interfaces out, interfaces in, leaves up, leaves down; then
// memory.
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

std::uint32_t Links::add(Link::Kind kind, int rail, int count) {
  const auto base = static_cast<std::uint32_t>(table_.size());
  for (int number = 0; number < count; ++number) table_.push_back({kind, rail, number});
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
  if (of.machines_per_leaf != 0 && of.oversubscription > 1) add_leaves(rail);
}

// What a leaf's links carry is by all machines below it, simulated or not.
void Links::add_leaves(int rail) {
  const Rail& of = job_.cluster.rails[at(rail)];
  const std::vector<double> below = of.below_leaves();
  int leaves = 0;
  for (int machine = 0; machine < machines_; ++machine)
    leaves = std::max(leaves, of.leaf_of(machine) + 1);
  RailBase& base = rails_[at(rail)];
  base.up = add(Link::Kind::leaf_up, rail, leaves);
  base.down = add(Link::Kind::leaf_down, rail, leaves);
  for (int leaf = 0; leaf < leaves; ++leaf) {
    const double rate = below[at(leaf)] * kBytesPerUsOfGbit / of.oversubscription;
    table_[base.up + static_cast<std::uint32_t>(leaf)].bytes_per_us = rate;
    table_[base.down + static_cast<std::uint32_t>(leaf)].bytes_per_us = rate;
  }
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
  if (base.up == kNone || of.leaf_of(source) == of.leaf_of(sink)) return path;
  const auto leaf = [&](int machine) {
    return static_cast<std::uint32_t>(of.leaf_of(static_cast<int>(folded(machine))));
  };
  path.links[2] = base.up + leaf(source);
  path.links[3] = base.down + leaf(sink);
  path.count = 4;
  return path;
}

double Links::latency_us(Rank from, Rank to, int rail) const {
  if (rail < 0) return job_.cluster.memory.latency_us;
  const Rail& of = job_.cluster.rails[at(rail)];
  const bool crosses = of.leaf_of(machine_of(from)) != of.leaf_of(machine_of(to));
  return of.latency_us + (crosses ? of.spine_latency_us : 0);
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
  const auto of_leaf = [&](std::string_view what) {
    return fmt::format("rail {}: leaf {} {}", cluster.rails[at(link.rail)].name, link.number, what);
  };
  switch (link.kind) {
    case Link::Kind::nic_out:
      return of_machine("sends");
    case Link::Kind::nic_in:
      return of_machine("receives");
    case Link::Kind::leaf_up:
      return of_leaf("up");
    case Link::Kind::leaf_down:
      return of_leaf("down");
    case Link::Kind::rank_memory:
      return fmt::format("rank {} reads", link.number);
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
    case Link::Kind::leaf_up:
      return of_rail("up from leaves");
    case Link::Kind::leaf_down:
      return of_rail("down to leaves");
    case Link::Kind::rank_memory:
      return "reading memory";
    case Link::Kind::memory:
      return "memory of machines";
  }
  return "unknown";
}

}  // namespace weft
