// What the text and the picture of a machine have in common: its devices, in the order of the tree
// that they hang in. Internal to the command; the machine must outlive what points into it.
#pragma once

#include <string>
#include <vector>

#include "topology/hardware/hardware.h"

namespace weft {

struct ShownDevice {
  std::string name;    // "GPU 0", "mlx5_0"
  std::string detail;  // " (ib0): 400 Gbit/s"
  const PciPlace* place;
  bool is_gpu;
  std::size_t position;  // in Machine::gpus or Machine::nics
  int node;              // that the machine has; -1: none that is known
};

// Sorted by node, host bridge, bridges and address, so that devices below one bridge are neighbors.
[[nodiscard]] std::vector<ShownDevice> devices_of(const Machine& machine);

// "48 KiB", "1.5 MiB", "512 GiB".
[[nodiscard]] std::string amount_text(std::uint64_t bytes);
// "32 x L1 48 KiB, 2 x L3 105 MiB (16 cores each)"; empty: unknown.
[[nodiscard]] std::string caches_text(const Machine& machine);
// "0-15, 32-47".
[[nodiscard]] std::string ranges_text(const std::vector<int>& numbers);

// ", 63.0 GB/s"; empty: unknown.
[[nodiscard]] std::string rate_text(double gbyte_per_s);

// "Intel(R) …, 2 package(s), 32 cores, 64 hardware threads".
[[nodiscard]] std::string summary_of(const Machine& machine);

// Sentences about assumptions: which devices of unknown node are shown on the only node.

}  // namespace weft
