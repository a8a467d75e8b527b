// cluster: the machines of a job and what connects them, as a value: from a TOML file, so that a
// cluster that is not at hand can be planned for. docs/cluster.md has the format.
//
// Ranks are numbered machine by machine. A rail is the set of interfaces, at most one per machine,
// that reach each other directly. Its switches are a tree: machines below leaves, leaves below the
// switches of level 1, and so on; one top connects those of the highest level. A switch's links
// upwards may carry less than the machines below it could ask for (oversubscription). Without a top
// the switches of the highest level are apart: a level of a BCube.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/hardware/hardware.h"
#include "verbs/base/base.h"

namespace weft {

struct ClusterMachine {
  std::string name;
  std::shared_ptr<const Machine> hardware;  // equal machines share it
  int first_rank = 0;
  int ranks = 1;
};

inline constexpr std::size_t kMostSwitchLevels = 8;

// Switches of a rail with equally many machines below them.
struct SwitchLevel {
  int machines = 1;  // below each: a multiple of the level below's
  // What the machines below a switch can send over what its links upwards carry; at least 1.
  double oversubscription = 1;
  double gbit_per_s = 0;  // what these links carry, each way; 0: as oversubscription says
  double latency_us = 0;  // more, for what goes up through this level and down again
  // By switch, what the machines below it can send together, where a job leaves some of them out.
  // Empty: the sum of their rates.
  std::vector<double> below_gbit_per_s{};
};
// "leaf 3" of level 0, "level 1, switch 3".
[[nodiscard]] std::string switch_name(int level, int number);

struct Rail {
  std::string name;
  // By machine: which of its network interfaces (Machine::nics), or -1: none on this rail.
  std::vector<int> nics;
  // By machine, one way.
  std::vector<double> gbit_per_s;
  double latency_us = 0;            // from memory to memory, below one leaf
  std::vector<SwitchLevel> levels;  // from the leaves upwards; none: all are below one switch
  int stride = 1;                   // the machines of a leaf are so many apart
  bool has_top = true;  // else a machine reaches those below its switch of the highest level only

  [[nodiscard]] bool has(int machine) const { return nics[static_cast<std::size_t>(machine)] >= 0; }
  // Of as many machines in a row as `stride` leaves have, each leaf has those with one remainder by
  // the stride.
  [[nodiscard]] int leaf_of(int machine) const {
    if (levels.empty()) return 0;
    return machine / stride / levels.front().machines * stride + machine % stride;
  }
  // Leaves that follow each other are below one switch of a higher level.
  [[nodiscard]] int switch_above(int level, int leaf) const {
    if (level == 0) return leaf;
    return leaf / (levels[static_cast<std::size_t>(level)].machines / levels.front().machines);
  }
  [[nodiscard]] int switch_of(int level, int machine) const {
    return switch_above(level, leaf_of(machine));
  }
  // Switches of the level below that are below one of this level.
  [[nodiscard]] int fan_in(int level) const {
    const auto at = static_cast<std::size_t>(level);
    return levels[at].machines / levels[at - 1].machines;
  }
  [[nodiscard]] int depth() const { return static_cast<int>(levels.size()); }
  // Machines of one part reach each other.
  [[nodiscard]] int part_of(int machine) const {
    return has_top || levels.empty() ? 0 : switch_of(depth() - 1, machine);
  }
  [[nodiscard]] bool reaches(int from, int to) const {
    return has(from) && has(to) && part_of(from) == part_of(to);
  }
  // Calls visit(level, from's switch, to's switch) for each level through which bytes between two
  // machines go up and down again, from the leaves upwards.
  template <class Visit>
  void visit_levels(int from, int to, Visit visit) const {
    if (levels.empty()) return;
    const int from_leaf = leaf_of(from);
    const int to_leaf = leaf_of(to);
    for (int level = 0; level < depth(); ++level) {
      const int a = switch_above(level, from_leaf);
      const int b = switch_above(level, to_leaf);
      if (a == b) return;
      visit(level, a, b);
    }
  }
  [[nodiscard]] double latency_between(int from, int to) const {
    double us = latency_us;
    visit_levels(from, to, [&](int level, int, int) {
      us += levels[static_cast<std::size_t>(level)].latency_us;
    });
    return us;
  }
  // By switch of a level: what the machines below it can send together, and what its links upwards
  // carry, each way.
  [[nodiscard]] std::vector<double> below_switches(int level) const;
  [[nodiscard]] std::vector<double> up_from_switches(int level) const;
};
// "8 machines a leaf, 2:1 oversubscribed".
[[nodiscard]] std::string describe(const Rail& rail, int level);

// Memory that the ranks of a machine share.
struct SharedMemory {
  double gbyte_per_s = 10;         // of one rank that reads another's
  double machine_gbyte_per_s = 0;  // of all ranks of a machine together; 0: no bound
  double latency_us = 0.5;
};

struct Cluster {
  std::string source;
  std::vector<ClusterMachine> machines;
  std::vector<Rail> rails;
  SharedMemory memory;

  [[nodiscard]] int ranks() const;
  [[nodiscard]] int machine_of(Rank rank) const;
};

// Errors name the file and the line. Paths in it are relative to its folder.
[[nodiscard]] Result<Cluster> read_cluster(const std::string& path);
// `count` machines of one kind with `ranks` ranks each, where the k-th network interfaces of all
// make rail k. Interfaces whose rate is unknown are left out, and those whose wire another one has
// (parts of a bond, virtual functions beside their card); with none left, an error.
[[nodiscard]] Result<Cluster> uniform_cluster(std::shared_ptr<const Machine> machine, int count,
                                              int ranks);
// Machines, ranks and rails, a line each.
[[nodiscard]] std::string describe(const Cluster& cluster);

}  // namespace weft
