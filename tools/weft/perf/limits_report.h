// What `weft perf limits` says, as lines or as one JSON object. Internal to the command.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "tools/weft/common/save.h"
#include "tools/weft/perf/gpu_limits.h"
#include "tools/weft/perf/options.h"
#include "tools/weft/perf/turn.h"

namespace weft {

struct LimitFigures {
  struct Copies {
    std::size_t bytes = 0;
    double memcpy_gbps = 0;
    Result<double> readv_gbps;
  };

  double cache_line_ns = 0;
  double yield_us = 0;
  double futex_wake_us = 0;
  std::vector<Copies> copies;
  std::array<double, 2> combine_gbps{};  // of one thread, and of two together; 0: one core
  std::vector<IdleTurn> turns;
  std::vector<GpuLimits> gpus;
  std::string no_gpus;  // why there are none
};

// The floor of neighbor_allreduce at one size.
struct FloorRow {
  std::size_t bytes = 0;
  double cached_us = 0;
  double streaming_us = 0;  // 0: too few bytes for that
  std::string why_not;      // no floor: memory of other ranks cannot be read
};

class LimitsReport {
 public:
  // Keeps a reference.
  static Result<LimitsReport> open(const PerfOptions& options);
  [[nodiscard]] Status figures(const LimitFigures& figures);
  [[nodiscard]] Status floor(const FloorRow& row);
  // Writes the JSON, if it was asked for.
  [[nodiscard]] Status done();

 private:
  LimitsReport(const PerfOptions& options, Rows rows)
      : options_(&options), rows_(std::move(rows)) {}

  const PerfOptions* options_;
  Rows rows_;
  LimitFigures figures_;
  std::vector<FloorRow> floors_;
};

}  // namespace weft
