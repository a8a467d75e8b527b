// Which interfaces the ranks of one machine use, and why. Internal to the module.
#pragma once

#include <string>
#include <vector>

#include "topology/rails/rails.h"

namespace weft {

// A machine's interface on a rail.
struct RailNic {
  int rail;
  int nic;  // index into Machine::nics
  double gbit_per_s;
  friend auto operator<=>(const RailNic&, const RailNic&) = default;
};

struct NearRails {
  std::vector<int> rails;  // ascending
  std::string reason;
};
// The result has an entry for each local rank. It is empty if all ranks use all interfaces.
// `interfaces` are those of the machine, by rail.
[[nodiscard]] std::vector<NearRails> near_rails(const Machine& machine, int ranks,
                                                const std::vector<RailNic>& interfaces,
                                                RailPolicy policy);

}  // namespace weft
