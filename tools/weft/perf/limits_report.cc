// Lines as they are measured; the JSON at the end.
#include "tools/weft/perf/limits_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/weft/common/bytes.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

double best_us(const FloorRow& row) {
  return row.streaming_us > 0 ? std::min(row.cached_us, row.streaming_us) : row.cached_us;
}

double gbps(double bytes, const FloorRow& row) {
  return best_us(row) > 0 ? bytes / best_us(row) / 1e3 : 0;
}

std::string copies_text(const LimitFigures::Copies& copies) {
  const std::string size = bytes_text(copies.bytes);
  return fmt::format("memcpy, {0:>3}             {1:8.1f} GB/s\nprocess_vm_readv, {0:>3}   {2}\n",
                     size, copies.memcpy_gbps,
                     copies.readv_gbps.ok() ? fmt::format("{:8.1f} GB/s", *copies.readv_gbps)
                                            : std::string(copies.readv_gbps.status().text()));
}

std::string lane_text(const LimitFigures& figures) {
  std::string text =
      fmt::format("combining, one lane     {:8.1f} GB/s of terms\n", figures.combine_gbps[0]);
  if (figures.combine_gbps[1] > 0) {
    text += fmt::format("combining, two lanes    {:8.1f} GB/s of terms\n", figures.combine_gbps[1]);
  }
  for (const IdleTurn& turn : figures.turns) {
    text += fmt::format("idle turn, {:<12} {}\n", turn.transport,
                        turn.why_not.empty() ? fmt::format("{:8.0f} ns", turn.ns) : turn.why_not);
  }
  return text;
}

std::string gpu_text(const GpuLimits& gpu) {
  std::string text = fmt::format("GPU {}, {}\n", gpu.number, gpu.name);
  text += fmt::format("  copies out, in        {:8.1f} {:.1f} GB/s\n", gpu.out_gbps, gpu.in_gbps);
  text += fmt::format("  a copy inside         {:8.1f} GB/s read and written\n", gpu.inside_gbps);
  if (!gpu.no_kernels.empty()) return text + fmt::format("  sums: {}\n", gpu.no_kernels);
  text += fmt::format("  a launch              {:8.1f} us\n", gpu.launch_us);
  for (const GpuLimits::Sums& sums : gpu.sums) {
    text += fmt::format("  {:<4} sums of 1 to 8, beside a copy:", sums.type);
    for (const double share : sums.shares) text += fmt::format(" {:.2f}", share);
    text += '\n';
  }
  return text;
}

Json json_of(const GpuLimits& gpu) {
  Json sums = Json::object();
  for (const GpuLimits::Sums& each : gpu.sums) sums[each.type] = each.shares;
  return {{"gpu", gpu.number},
          {"name", gpu.name},
          {"out_gbyte_per_s", gpu.out_gbps},
          {"in_gbyte_per_s", gpu.in_gbps},
          {"inside_gbyte_per_s", gpu.inside_gbps},
          {"launch_us", gpu.launch_us},
          {"sums_of_copy", sums}};
}

// 0: not measured.
Json number_or_null(double value) {
  return value > 0 ? Json(value) : Json();
}

Json json_of(const LimitFigures& figures) {
  Json copies = Json::array();
  for (const LimitFigures::Copies& one : figures.copies) {
    copies.push_back({{"bytes", one.bytes},
                      {"memcpy_gbyte_per_s", one.memcpy_gbps},
                      {"readv_gbyte_per_s", one.readv_gbps.ok() ? Json(*one.readv_gbps) : Json()}});
  }
  Json gpus = Json::array();
  for (const GpuLimits& gpu : figures.gpus) gpus.push_back(json_of(gpu));
  Json turns = Json::object();
  for (const IdleTurn& turn : figures.turns) turns[turn.transport] = number_or_null(turn.ns);
  return {{"op", "limits"},
          {"cache_line_ns", figures.cache_line_ns},
          {"yield_us", figures.yield_us},
          {"futex_wake_us", figures.futex_wake_us},
          {"copies", copies},
          {"lane_gbyte_per_s", figures.combine_gbps[0]},
          {"two_lanes_gbyte_per_s", number_or_null(figures.combine_gbps[1])},
          {"idle_turn_ns", turns},
          {"gpus", gpus}};
}

Json json_of(const FloorRow& row, const CountedBytes& counted) {
  return {{"bytes", row.bytes},
          {"cached_us", number_or_null(row.cached_us)},
          {"streaming_us", number_or_null(row.streaming_us)},
          {"algbw_GBps", number_or_null(gbps(counted.algorithm, row))},
          {"busbw_GBps", number_or_null(gbps(counted.bus, row))}};
}

}  // namespace

Result<LimitsReport> LimitsReport::open(const PerfOptions& options) {
  WEFT_ASSIGN(Rows rows, Rows::open(options.asked.json));
  return LimitsReport(options, std::move(rows));
}

Status LimitsReport::figures(const LimitFigures& figures) {
  figures_ = figures;
  std::string text = fmt::format("cache line, one way     {:8.0f} ns\n", figures.cache_line_ns);
  text += fmt::format("sched_yield hand-over   {:8.2f} us\n", figures.yield_us);
  text += fmt::format("futex wake across cores {:8.1f} us\n", figures.futex_wake_us);
  for (const LimitFigures::Copies& copies : figures.copies) text += copies_text(copies);
  text += lane_text(figures);
  if (!figures.no_gpus.empty())
    text += fmt::format("GPUs                    none: {}\n", figures.no_gpus);
  for (const GpuLimits& gpu : figures.gpus) text += gpu_text(gpu);
  const PerfArguments& asked = options_->asked;
  text += fmt::format("\nfloor of {} over {}, {} ranks on {} cores, {}, {} memory\n",
                      name(options_->collective), asked.graph, asked.ranks, core_count(),
                      asked.type, asked.memory);
  text += fmt::format("{:>6} {:>12} {:>12} {:>10} {:>10}\n", "bytes", "cached us", "streaming us",
                      "algbw GB/s", "busbw GB/s");
  return rows_.text(text);
}

Status LimitsReport::floor(const FloorRow& row) {
  floors_.push_back(row);
  const std::string size = bytes_text(row.bytes);
  if (!row.why_not.empty()) {
    return rows_.text(fmt::format("{:>6} {:>12} {:>12} {:>10} {:>10}  {}\n", size, "-", "-", "-",
                                  "-", row.why_not));
  }
  const std::string streaming =
      row.streaming_us > 0 ? fmt::format("{:.2f}", row.streaming_us) : "-";
  const CountedBytes counted = options_->counted(row.bytes);
  return rows_.text(fmt::format("{:>6} {:>12.2f} {:>12} {:>10.2f} {:>10.2f}\n", size, row.cached_us,
                                streaming, gbps(counted.algorithm, row), gbps(counted.bus, row)));
}

Status LimitsReport::done() {
  Json json = json_of(figures_);
  json["floor"] = Json::array();
  for (const FloorRow& row : floors_)
    json["floor"].push_back(json_of(row, options_->counted(row.bytes)));
  WEFT_RETURN_IF_ERROR(rows_.json(json.dump()));
  return rows_.close();
}

}  // namespace weft
