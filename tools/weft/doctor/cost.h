// cost: what a finding costs, by the simulator of `weft predict`. Internal to the command.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "tools/diagnosis/diagnosis.h"

namespace weft {

// An allreduce over all hosts; of a single one, over two of its kind.
struct Cost {
  std::size_t bytes = 0;
  int hosts = 0, ranks = 0;
  double us = 0, mended_us = 0;

  [[nodiscard]] double times() const { return us / mended_us; }
};
// Nothing where rates are not known, where the finding changes none, or where it costs less than a
// hundredth.
[[nodiscard]] std::optional<Cost> cost_of(const Finding& finding, std::span<const HostFacts> hosts);

}  // namespace weft
