// The machine alone. The context that is there does nothing: it has made the shared heap as the
// settings say.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "engine/context/context.h"
#include "tools/weft/perf/contenders.h"
#include "tools/weft/perf/limits_report.h"
#include "tools/weft/perf/measure.h"
#include "tools/weft/perf/perf.h"
#include "tools/weft/perf/turn.h"

namespace weft {
namespace {

// GPUs are measured with tensors of so many bytes.
LimitFigures figures(std::size_t gpu_bytes) {
  constexpr std::size_t kTerm = std::size_t{16} << 20;
  const CorePair cores = first_cores();
  LimitFigures found;
  found.cache_line_ns = ping_pong_ns(cores);
  found.yield_us = yield_us(cores.first);
  found.futex_wake_us = futex_wake_us(cores);
  for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{16} << 20})
    found.copies.push_back({bytes, memcpy_gbps(bytes), readv_gbps(bytes)});
  found.combine_gbps = {combine_gbps(cores, 1, kTerm), combine_gbps(cores, 2, kTerm)};
  found.turns = idle_turns();
  Result<std::vector<GpuLimits>> gpus = gpu_limits(gpu_bytes);
  if (gpus.ok())
    found.gpus = *std::move(gpus);
  else
    found.no_gpus = gpus.status().text();
  return found;
}

// Nothing at ranks that do not lead.
Result<std::optional<FloorRow>> floor_of(const PerfOptions& options, std::size_t bytes,
                                         Seat& seat) {
  const std::size_t count = options.count(bytes);
  WEFT_ASSIGN(const Tensors tensors,
              Tensors::make(seat, options.type, count, count, options.is_private()));
  FloorRow row;
  row.bytes = bytes;
  WEFT_ASSIGN(const bool readable, seat.can_read(tensors.inputs, row.why_not));
  if (!readable) return seat.leads() ? std::optional(row) : std::nullopt;
  FloorCalls cached(options, false, seat, tensors);
  FloorCalls streaming(options, true, seat, tensors);
  std::vector<Contender> contenders{{cached.subject(), nullptr, false, {}}};
  if (bytes >= kStreamingFrom) contenders.push_back({streaming.subject(), nullptr, false, {}});
  const Contest contest{name(options.collective), bytes, options.asked.seconds,
                        options.asked.in_process};
  WEFT_ASSIGN(const std::vector<Score> scores, measure(contest, contenders, seat));
  if (!seat.leads()) return std::optional<FloorRow>();
  row.cached_us = median(scores[0].laps_us);
  if (scores.size() > 1) row.streaming_us = median(scores[1].laps_us);
  return std::optional(row);
}

Status report_all(const PerfOptions& options, Seat& seat) {
  std::optional<LimitsReport> report;
  if (seat.leads()) {
    WEFT_ASSIGN(report, LimitsReport::open(options));
  }
  constexpr std::size_t kMostOfGpu = std::size_t{64} << 20;
  const std::size_t largest = options.sizes.empty() ? kMostOfGpu : std::ranges::max(options.sizes);
  if (report) {
    WEFT_RETURN_IF_ERROR(report->figures(figures(std::clamp(largest, sizeof(double), kMostOfGpu))));
  }
  for (const std::size_t bytes : options.sizes) {
    WEFT_ASSIGN(const std::optional<FloorRow> row, floor_of(options, bytes, seat));
    if (row) WEFT_RETURN_IF_ERROR(report->floor(*row));
  }
  return report ? report->done() : Status();
}

}  // namespace

Status perf_limits(const PerfOptions& options, const Config& config,
                   const std::shared_ptr<Store>& store) {
  WEFT_ASSIGN(const std::unique_ptr<Context> context, Context::create(config, store));
  WEFT_ASSIGN(const std::unique_ptr<Seat> seat, Seat::take(*store));
  Status status = report_all(options, *seat);
  if (!status.ok()) seat->give_up();
  return status;
}

}  // namespace weft
