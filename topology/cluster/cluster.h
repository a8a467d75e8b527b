// cluster: the machines of a job and what connects them, as a value: from a TOML file, so that a
// cluster that is not at hand can be planned for. docs/cluster.md has the format.
//
// Ranks are numbered machine by machine. A rail is the set of interfaces, at most one per machine,
// that reach each other directly; its switches are a tree of one or two levels: machines below
// leaves, leaves below one spine whose links to each leaf may carry less than the machines below it
// could ask for (oversubscription). Without a spine the leaves are apart: a level of a BCube.
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

struct Rail {
  std::string name;
  // By machine: which of its network interfaces (Machine::nics), or -1: none on this rail.
  std::vector<int> nics;
  // By machine, one way.
  std::vector<double> gbit_per_s;
  double latency_us = 0;      // from memory to memory, below one leaf
  int machines_per_leaf = 0;  // 0: all are below one
  int leaf_stride = 1;        // the machines of a leaf are so many apart
  bool has_spine = true;      // else a machine reaches those below its own leaf only
  // What the machines below a leaf can send over what the leaf's links to the spine carry; at least
  // 1.
  double oversubscription = 1;
  double spine_latency_us = 0;  // more, from leaf to leaf
  // By leaf, what the machines below it can send together, where a job leaves some of them out.
  // Empty: the sum of gbit_per_s.
  std::vector<double> leaf_gbit_per_s;

  [[nodiscard]] bool has(int machine) const { return nics[static_cast<std::size_t>(machine)] >= 0; }
  // Of every `machines_per_leaf * leaf_stride` machines, those with one remainder by the stride.
  [[nodiscard]] int leaf_of(int machine) const {
    if (machines_per_leaf == 0) return 0;
    const int block = machine / leaf_stride / machines_per_leaf;
    return block * leaf_stride + machine % leaf_stride;
  }
  // What the machines below each leaf can send together.
  [[nodiscard]] std::vector<double> below_leaves() const;
  [[nodiscard]] bool reaches(int from, int to) const {
    return has(from) && has(to) && (has_spine || leaf_of(from) == leaf_of(to));
  }
};

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
// make rail k. Interfaces whose rate is not told are left out, and those whose wire another one has
// (parts of a bond, virtual functions beside their card); with none left, an error.
[[nodiscard]] Result<Cluster> uniform_cluster(std::shared_ptr<const Machine> machine, int count,
                                              int ranks);
// Machines, ranks and rails, a line each.
[[nodiscard]] std::string describe(const Cluster& cluster);

}  // namespace weft
