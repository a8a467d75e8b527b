// cluster: the machines of a job and what connects them, as a value. It is read from a TOML file,
// so that one can plan for a cluster that does not exist yet. docs/cluster.md describes the format.
//
// Ranks are numbered machine by machine. A rail is a set of interfaces, at most one per machine,
// that reach each other directly. Its switches form a tree: machines are below leaves, leaves below
// the switches of level 1, and so on. One top connects the switches of the highest level. The links
// of a switch upwards may carry less than the machines below it can send (oversubscription).
// Without a top the switches of the highest level are not connected; the rail is then a level of a
// BCube.
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

// The switches of one level of a rail. Each has the same number of machines below it.
struct SwitchLevel {
  int machines = 1;  // machines below each switch: a multiple of the number of the level below
  // What the machines below a switch can send, divided by what its links upwards carry; at least 1.
  double oversubscription = 1;
  double gbit_per_s = 0;  // what the links upwards carry, each way; 0: as oversubscription says
  double latency_us = 0;  // added for bytes that go up through this level and down again
  // By switch: what the machines below it can send together, if a job leaves some of them out.
  // Empty: the sum of the machines' rates.
  std::vector<double> below_gbit_per_s{};
};
// "leaf 3" of level 0, "level 1, switch 3".
[[nodiscard]] std::string switch_name(int level, int number);

struct Rail {
  std::string name;
  // By machine: the index in Machine::nics of its interface on this rail, or -1 if it has none.
  std::vector<int> nics;
  // By machine: the rate of that interface, one way.
  std::vector<double> gbit_per_s;
  double latency_us = 0;            // from memory to memory, below one leaf
  std::vector<SwitchLevel> levels;  // from the leaves upwards; empty: all machines below one switch
  int stride = 1;                   // distance between the machines of a leaf
  bool has_top = true;  // false: a machine reaches only those below its switch of the highest level

  [[nodiscard]] bool has(int machine) const { return nics[static_cast<std::size_t>(machine)] >= 0; }
  // The leaf of a machine. Example: stride 4, 4 machines a leaf. Of machines 0 to 15, leaf 0 has 0,
  // 4, 8 and 12, leaf 1 has 1, 5, 9 and 13, and so on.
  [[nodiscard]] int leaf_of(int machine) const {
    if (levels.empty()) return 0;
    return machine / stride / levels.front().machines * stride + machine % stride;
  }
  // The switch of a level that is above a leaf. Consecutive leaves are below one switch.
  [[nodiscard]] int switch_above(int level, int leaf) const {
    if (level == 0) return leaf;
    return leaf / (levels[static_cast<std::size_t>(level)].machines / levels.front().machines);
  }
  [[nodiscard]] int switch_of(int level, int machine) const {
    return switch_above(level, leaf_of(machine));
  }
  // How many switches of the level below are below one switch of this level.
  [[nodiscard]] int fan_in(int level) const {
    const auto at = static_cast<std::size_t>(level);
    return levels[at].machines / levels[at - 1].machines;
  }
  [[nodiscard]] int depth() const { return static_cast<int>(levels.size()); }
  // The part of the rail to which a machine belongs. Machines of one part reach each other.
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
  // For each switch of a level: what the machines below it can send together; and what its links
  // upwards carry, each way.
  [[nodiscard]] std::vector<double> below_switches(int level) const;
  [[nodiscard]] std::vector<double> up_from_switches(int level) const;
};
// "8 machines a leaf, 2:1 oversubscribed".
[[nodiscard]] std::string describe(const Rail& rail, int level);

// Memory that the ranks of a machine share.
struct SharedMemory {
  double gbyte_per_s = 10;         // rate of one rank that reads another rank's memory
  double machine_gbyte_per_s = 0;  // rate of all ranks of a machine together; 0: no bound
  double latency_us = 0.5;
  // Rate of one thread that combines: the bytes of all terms that it reads, from tensors that are
  // larger than its caches. A core alone reaches two to three times the default; the default is what each
  // core keeps when its neighbors combine as well. `weft perf limits` measures both.
  double combine_gbyte_per_s = 10;

  // The rate of each lane, where each of `ranks` ranks of a machine combines with `lanes` threads. All
  // of them together read no faster than the machine's memory, unless one lane of each rank already
  // does.
  [[nodiscard]] double lane_gbyte_per_s(int ranks, int lanes) const;
};

struct Cluster {
  std::string source;
  std::vector<ClusterMachine> machines;
  std::vector<Rail> rails;
  SharedMemory memory;
  // What its file has without effect, or what counts twice, a sentence each.
  std::vector<std::string> remarks{};

  [[nodiscard]] int ranks() const;
  [[nodiscard]] int machine_of(Rank rank) const;
};

// From a cluster file, or from what `ibnetdiscover` prints: all hosts of an InfiniBand network, its rates
// and leaves. Errors name the file and the line. Paths in the file are relative to its folder.
[[nodiscard]] Result<Cluster> read_cluster(const std::string& path);
// `count` machines of one kind with `ranks` ranks each. Rail k consists of the k-th network
// interface of each machine. Interfaces of unknown rate are left out, and so are those that share
// the wire of another one (parts of a bonded interface, virtual functions beside their card). If
// none is left, it is an error.
[[nodiscard]] Result<Cluster> uniform_cluster(const std::shared_ptr<const Machine>& machine,
                                              int count, int ranks);
// A text with one line each for the machines, the ranks and the rails, and remarks on them.
[[nodiscard]] std::string describe(const Cluster& cluster);

}  // namespace weft
