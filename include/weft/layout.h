// Layout: which ranks share a machine, and what is known of the rails between machines.
#pragma once

#include <weft/status.h>

#include <cstddef>
#include <vector>

namespace WEFT_PUBLIC weft {

// Which ranks are on which machine, for algorithms that use this. All ranks have the same value.
struct Layout {
  // By rank: the number of its machine. Machines are numbered in the order of their lowest ranks.
  // Empty: all ranks are on one machine.
  std::vector<int> machine;
  int rails = 1;  // number of rails that connect the machines and can be busy at the same time
  // By rank: the rail that is near the rank and that as few other ranks as possible use; or
  // kAnyRail if there is none. Empty: no distances are known.
  std::vector<int> near = {};
  // By rank: how much of the rate of its rails is left, above 0 and at most 1, where some have been lost.
  // Empty: all of it.
  std::vector<double> left = {};

  [[nodiscard]] int machine_of(Rank rank) const {
    return machine.empty() ? 0 : machine[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] int machines() const;
};

}  // namespace weft
