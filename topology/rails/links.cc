// Of a rail: what each machine sends and receives, then, level by level, what goes up and down at
// each switch. Then the memory of each machine, then what each rank reads.
#include "topology/rails/links.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {

Links::Links(const Cluster& cluster)
    : cluster_(cluster), machines_(static_cast<int>(cluster.machines.size())) {
  for (const Rail& rail : cluster.rails) add_rail(rail);
  first_.push_back(gbit_per_s_.size());
  constexpr double kGbit = 8;  // of a GByte
  gbit_per_s_.resize(gbit_per_s_.size() + cluster.machines.size(),
                     kGbit * cluster.memory.machine_gbyte_per_s);
  gbit_per_s_.resize(gbit_per_s_.size() + static_cast<std::size_t>(cluster.ranks()),
                     kGbit * cluster.memory.gbyte_per_s);
}

void Links::add_rail(const Rail& rail) {
  first_.push_back(gbit_per_s_.size());
  for (const double rate : rail.gbit_per_s) gbit_per_s_.insert(gbit_per_s_.end(), 2, rate);
  auto& first_up = first_up_.emplace_back();
  for (int level = 0; level < rail.depth(); ++level) {
    first_up[static_cast<std::size_t>(level)] = gbit_per_s_.size();
    for (const double rate : rail.up_from_switches(level))
      gbit_per_s_.insert(gbit_per_s_.end(), 2, rate);
  }
  std::fill(first_up.begin() + rail.depth(), first_up.end(), gbit_per_s_.size());
}

LinkLoad Links::describe(std::size_t link) const {
  LinkLoad load;
  load.gbit_per_s = gbit_per_s_[link];
  if (link >= reads(0)) {
    load.kind = LinkKind::read;
    load.number = static_cast<int>(link - reads(0));
    load.name = fmt::format("seat {} reads", load.number);
  } else if (link >= memory(0)) {
    load.kind = LinkKind::memory;
    load.number = static_cast<int>(link - memory(0));
    load.name = fmt::format("memory of {}", cluster_.machines[link - memory(0)].name);
  } else {
    describe_on_rail(link, load);
  }
  return load;
}

void Links::describe_on_rail(std::size_t link, LinkLoad& load) const {
  load.rail = static_cast<int>(std::ranges::upper_bound(first_, link) - first_.begin()) - 1;
  const std::size_t place = link - sends(load.rail, 0);
  const bool is_out = place % 2 == 0;
  load.number = static_cast<int>(place / 2);
  const Rail& rail = cluster_.rails[static_cast<std::size_t>(load.rail)];
  if (load.number < machines_) {
    load.kind = is_out ? LinkKind::send : LinkKind::receive;
    load.name = fmt::format("rail {}: {} {}", rail.name,
                            cluster_.machines[static_cast<std::size_t>(load.number)].name,
                            is_out ? "sends" : "receives");
  } else {
    load.level = rail.depth() - 1;
    while (link < up(load.rail, load.level, 0)) --load.level;
    load.number = static_cast<int>(link - up(load.rail, load.level, 0)) / 2;
    load.kind = is_out ? LinkKind::up : LinkKind::down;
    load.name = fmt::format("rail {}: {} {}", rail.name, switch_name(load.level, load.number),
                            is_out ? "up" : "down");
  }
}

}  // namespace weft
