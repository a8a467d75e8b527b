// workplace: what this rank works with, and how far its network interfaces are from there, as far as
// the machine tells; what ranks of one machine share their interfaces out by. Internal to the
// module.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "topology/rails/rails.h"

namespace weft {

// This machine as far as it matters to a rank; tests make one up.
struct Surroundings {
  Machine machine;
  int node = -1;  // that has all cores on which this process may run; -1: no single one
  std::vector<Nic> absent = {};  // interfaces that are there, but must not be used
};
// As it is, corrected by what Config::hardware says. Errors name that file and its line.
[[nodiscard]] Result<Surroundings> surroundings(const Config& config);
// The same, found when first asked for and kept: it takes tens of milliseconds. One thread's.
class Hardware {
 public:
  [[nodiscard]] Result<const Surroundings*> get(const Config& config);

 private:
  std::optional<Surroundings> found_;
};

// A GPU where the rank is told to have one, or there are GPUs and the launcher has told its local
// rank; else the node of its cores; else what ranks with its local rank usually have.
// invalid_argument for a GPU that is not there. Pure.
[[nodiscard]] Result<Workplace> workplace_of(const Config& config, const Surroundings& here);
// The NUMA node of the cores to which this process is bound, else of its GPU; -1: neither is told.
// Which node its local rank usually has does not count: a thread that is bound by such a guess is
// worse off than one that is not.
[[nodiscard]] int told_node(const Surroundings& here, Workplace place);

// The interface of this name, an RDMA port's or a network interface's; null: none of these.
[[nodiscard]] const Nic* nic_named(std::span<const Nic> nics, const std::string& name);
// How far an interface is (how_far() in topology/rails), and how fast; -1: not told.
struct RailDistance {
  int far = 0;
  int mbit_per_s = -1;
  friend bool operator==(const RailDistance&, const RailDistance&) = default;
};
// Of the interface of this name; one that the machine does not list is as far as can be.
[[nodiscard]] RailDistance distance_to(const Machine& machine, Workplace place,
                                       const std::string& interface);
// "mlx5_3 and GPU 3 are below one PCI switch".
[[nodiscard]] std::string how_near(const Machine& machine, Workplace place,
                                   const std::string& interface);

}  // namespace weft
