// gpu_limits: what each GPU could do at best: copies, launches, and sums beside copies.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

struct GpuLimits {
  static constexpr std::size_t kMostTerms = 8;
  // Sums of 1 to 8 terms of one type: the bytes that they read and write per second, as a part of what
  // a copy inside of the GPU reads and writes.
  struct Sums {
    std::string type;
    std::array<double, kMostTerms> shares{};
  };

  int number = 0;
  std::string name;
  double out_gbps = 0;     // to pinned host memory
  double in_gbps = 0;      // from it
  double inside_gbps = 0;  // a copy inside: bytes that are read and bytes that are written
  double launch_us = 0;  // a kernel with nothing to do, from the call until the host knows its end
  std::string no_kernels;  // why there are no sums; empty: there are
  std::vector<Sums> sums;
};

// Those of this machine, with tensors of so many bytes; an error says why there are none.
[[nodiscard]] Result<std::vector<GpuLimits>> gpu_limits(std::size_t bytes);

}  // namespace weft
