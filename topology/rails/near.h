// Internal to the module: what the ranks of one machine use, and why.
#pragma once

#include <string>
#include <vector>

#include "topology/rails/rails.h"

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
// By local rank. `interfaces`: those of the machine, by rail. Nothing: all ranks use all of them.
[[nodiscard]] std::vector<NearRails> near_rails(const Machine& machine, int ranks,
                                                const std::vector<RailNic>& interfaces,
                                                RailPolicy policy);

}  // namespace weft
