// Lines as they are measured; the JSON at the end.
#include "tools/weft/perf/limits_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/weft/common/bytes.h"
#include "tools/weft/common/save.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

double best_us(const FloorRow& row) {
  return row.streaming_us > 0 ? std::min(row.cached_us, row.streaming_us) : row.cached_us;
}

double gbps(const FloorRow& row) {
  return best_us(row) > 0 ? static_cast<double>(row.bytes) / best_us(row) / 1e3 : 0;
}

void print_copies(const LimitFigures::Copies& copies) {
  const std::string size = bytes_text(copies.bytes);
  fmt::print("memcpy, {:>3}             {:8.1f} GB/s\n", size, copies.memcpy_gbps);
  if (copies.readv_gbps.ok()) {
    fmt::print("process_vm_readv, {:>3}   {:8.1f} GB/s\n", size, *copies.readv_gbps);
  } else {
    fmt::print("process_vm_readv, {:>3}   {}\n", size, copies.readv_gbps.status().text());
  }
}

void print_lane(const LimitFigures& figures) {
  fmt::print("combining, one lane     {:8.1f} GB/s of terms\n", figures.combine_gbps[0]);
  if (figures.combine_gbps[1] > 0)
    fmt::print("combining, two lanes    {:8.1f} GB/s of terms\n", figures.combine_gbps[1]);
  for (const IdleTurn& turn : figures.turns) {
    if (turn.why_not.empty()) {
      fmt::print("idle turn, {:<12} {:8.0f} ns\n", turn.transport, turn.ns);
    } else {
      fmt::print("idle turn, {:<12} {}\n", turn.transport, turn.why_not);
    }
  }
}

void print_gpu(const GpuLimits& gpu) {
  fmt::print("GPU {}, {}\n", gpu.number, gpu.name);
  fmt::print("  copies out, in        {:8.1f} {:.1f} GB/s\n", gpu.out_gbps, gpu.in_gbps);
  fmt::print("  a copy inside         {:8.1f} GB/s read and written\n", gpu.inside_gbps);
  if (!gpu.no_kernels.empty()) return fmt::print("  sums: {}\n", gpu.no_kernels);
  fmt::print("  a launch              {:8.1f} us\n", gpu.launch_us);
  for (const GpuLimits::Sums& sums : gpu.sums) {
    fmt::print("  {:<4} sums of 1 to 8, beside a copy:", sums.type);
    for (const double share : sums.shares) fmt::print(" {:.2f}", share);
    fmt::print("\n");
  }
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

Json json_of(const FloorRow& row) {
  return {{"bytes", row.bytes},
          {"cached_us", number_or_null(row.cached_us)},
          {"streaming_us", number_or_null(row.streaming_us)},
          {"gbyte_per_s", number_or_null(gbps(row))}};
}

}  // namespace

void LimitsReport::figures(const LimitFigures& figures) {
  figures_ = figures;
  if (!has_text()) return;
  fmt::print("cache line, one way     {:8.0f} ns\n", figures.cache_line_ns);
  fmt::print("sched_yield hand-over   {:8.2f} us\n", figures.yield_us);
  fmt::print("futex wake across cores {:8.1f} us\n", figures.futex_wake_us);
  for (const LimitFigures::Copies& copies : figures.copies) print_copies(copies);
  print_lane(figures);
  if (!figures.no_gpus.empty()) fmt::print("GPUs                    none: {}\n", figures.no_gpus);
  for (const GpuLimits& gpu : figures.gpus) print_gpu(gpu);
  const PerfArguments& asked = options_.asked;
  fmt::print("\nfloor of {} over {}, {} ranks on {} cores, {}, {} memory\n",
             name(options_.collective), asked.graph, asked.ranks, core_count(), asked.type,
             asked.memory);
  fmt::print("{:>6} {:>12} {:>12} {:>9}\n", "bytes", "cached us", "streaming us", "GB/s");
  std::fflush(stdout);
}

void LimitsReport::floor(const FloorRow& row) {
  floors_.push_back(row);
  if (!has_text()) return;
  const std::string size = bytes_text(row.bytes);
  if (!row.why_not.empty()) {
    fmt::print("{:>6} {:>12} {:>12} {:>9}  {}\n", size, "-", "-", "-", row.why_not);
  } else {
    const std::string streaming =
        row.streaming_us > 0 ? fmt::format("{:.2f}", row.streaming_us) : "-";
    fmt::print("{:>6} {:>12.2f} {:>12} {:>9.2f}\n", size, row.cached_us, streaming, gbps(row));
  }
  std::fflush(stdout);
}

Status LimitsReport::done() const {
  const std::string& path = options_.asked.json;
  if (path.empty()) return {};
  Json json = json_of(figures_);
  json["floor"] = Json::array();
  for (const FloorRow& row : floors_) json["floor"].push_back(json_of(row));
  const std::string text = json.dump() + "\n";
  if (path != "-") return save(path, text);
  fmt::print("{}", text);
  return {};
}

}  // namespace weft
