// rates: what an allreduce takes over interfaces of which only the rates are known. For `weft doctor` and
// `weft top`.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

struct RatedHost {
  std::string name;
  std::map<std::string, double> gbit_per_s;  // of its interfaces
};

struct RatedScene {
  std::vector<RatedHost> hosts;
  int ranks = 1;  // of each host
  int cores = 1;  // of a host
  bool is_rdma = false, has_gpus = false;
  std::size_t bytes = 0;
};

// Microseconds, by the simulator of `weft predict`.
[[nodiscard]] Result<double> allreduce_us(const RatedScene& scene);

}  // namespace weft
