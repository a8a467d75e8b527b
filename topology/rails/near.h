// Internal to the module: what the ranks of one machine use under RailPolicy::near.
#pragma once

#include <string>
#include <vector>

#include "topology/hardware/hardware.h"

namespace weft {

// A machine's way onto a rail.
struct RailNic {
  int rail;
  int nic;  // of Machine::nics
  double gbit_per_s;
  friend auto operator<=>(const RailNic&, const RailNic&) = default;
};

struct NearRails {
  std::vector<int> rails;  // ascending
  std::string reason;
};
// By local rank. `interfaces`: those of the machine, by rail.
[[nodiscard]] std::vector<NearRails> near_rails(const Machine& machine, int ranks,
                                                const std::vector<RailNic>& interfaces);

}  // namespace weft
