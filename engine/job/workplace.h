// workplace: the GPU or the NUMA node with which this rank works, and how far its network
// interfaces are from there. By these distances the ranks of a machine share out its interfaces.
//
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/job/shown_gpus.h"
#include "topology/rails/rails.h"

namespace weft {

// The parts of this machine that matter to a rank. Tests make up their own.
struct Surroundings {
  Machine machine;
  int node = -1;  // the node that has all cores on which this process may run; -1: several nodes
  std::vector<Nic> absent = {};  // interfaces that exist, but must not be used
  ShownGpus shown = {};          // the GPUs that this process sees
};
// Discovers this machine and corrects it by the file Config::hardware. Errors name the file and the
// line.
[[nodiscard]] Result<Surroundings> surroundings(const Config& config);
// surroundings(), called when first needed and then kept, because it takes tens of milliseconds.
// For one thread.
class Hardware {
 public:
  [[nodiscard]] Result<const Surroundings*> get(const Config& config);

 private:
  std::optional<Surroundings> found_;
};

// Where the rank works. The first of these that applies:
//  - the GPU of WEFT_GPU; invalid_argument if the machine does not have it;
//  - if the process sees GPUs, WEFT_GPU leaves the choice open, and the local rank is known: the GPU that
//    a rank with this local rank usually has, of those that the process sees; if that is one alone, the
//    local rank need not be known;
//  - the node of its cores;
//  - the node that a rank with this local rank usually has.
// Pure.
[[nodiscard]] Result<Workplace> workplace_of(const Config& config, const Surroundings& here);
// The NUMA node of the cores to which this process is bound, else of its GPU; -1: both are unknown.
// The node that a rank with its local rank usually has is not used, because a thread that is bound
// to a wrong guess is slower than an unbound one.
[[nodiscard]] int told_node(const Surroundings& here, Workplace place);

// The interface with this name of an RDMA port or of a network interface; null: there is none.
[[nodiscard]] const Nic* nic_named(std::span<const Nic> nics, const std::string& name);
// How far an interface is (how_far() in topology/rails), and its rate; -1: unknown.
struct RailDistance {
  int far = 0;
  int mbit_per_s = -1;
  friend bool operator==(const RailDistance&, const RailDistance&) = default;
};
// The distance of the interface with this name. An interface that the machine does not list counts
// as farthest.
[[nodiscard]] RailDistance distance_to(const Machine& machine, Workplace place,
                                       const std::string& interface);
// How near the interface is, as a text: "mlx5_3 and GPU 3 are below one PCI switch".
[[nodiscard]] std::string how_near(const Machine& machine, Workplace place,
                                   const std::string& interface);

}  // namespace weft
