// race: a strategy on all ranks for a while, one of which may be slow. The ranks are threads of this
// process, and sleep where a program would compute.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/config/config.h"
#include "tools/weft/strategies/options.h"

namespace weft {

struct RaceResult {
  double steps_per_s = 0;  // of all ranks together
  // The largest distance of a rank's model from the mean of all, relative to the mean.
  double consensus = 0;
  double bytes_per_step = 0;    // of a rank, the mean
  double busiest_per_step = 0;  // of the rank that has sent most
  std::uint64_t steps = 0;      // of all ranks
  std::uint64_t dropped = 0;
  // Of tasks that have them: at the end, and when the model of rank 0 had the loss that was asked for.
  std::optional<double> loss{}, accuracy{};
  std::optional<double> seconds_to_loss{};
  std::optional<std::uint64_t> steps_to_loss{};
};

// `straggler`: how many iteration times the last rank sleeps more; 0: none.
[[nodiscard]] Result<RaceResult> race(const StrategiesOptions& options, const Config& config,
                                      const Contestant& contestant, double straggler);

}  // namespace weft
