// Columns and keys.
#include "tools/weft/perf/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/weft/common/bytes.h"
#include "tools/weft/perf/plot.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// Who waits for a size so long wants to know how many are left.
constexpr std::int64_t kSlowRowNs = 5'000'000'000;

double gbps(double bytes, double us) {
  return us > 0 ? bytes / us / 1e3 : 0;
}

// One way of a round trip.
double one_way_us(const Score& score) {
  return median(score.laps_us) / 2;
}

void add_window(Json& object, const Row& row, const PerfArguments& asked) {
  object["target"] = asked.target;
  object["pages"] = row.pages;
  const double each_us = median(row.own.laps_us) / static_cast<double>(row.pages);
  object["per_s"] = each_us > 0 ? 1e6 / each_us : 0;
  if (row.singles) {
    object["singles_p50_us"] = median(row.singles->laps_us);
    object["pages_speedup"] = paired_ratio(*row.singles, row.own);
  }
  if (row.puts_in_turn) object["visible_us"] = one_way_us(*row.puts_in_turn);
  if (row.lines_in_turn) {
    object["line_us"] = one_way_us(*row.lines_in_turn);
    object["visible_ratio"] = paired_ratio(*row.puts_in_turn, *row.lines_in_turn);
  }
}

// What each rank gave to ranks of other machines, in one call.
std::vector<double> network_bytes_each(const Score& score) {
  std::vector<double> bytes;
  for (const std::uint64_t all : score.network_bytes)
    bytes.push_back(static_cast<double>(all) / score.calls);
  return bytes;
}

}  // namespace

Result<Report> Report::open(const PerfOptions& options) {
  WEFT_RETURN_IF_ERROR(check_writable(options.asked.svg));
  WEFT_ASSIGN(Rows rows, Rows::open(options.asked.json));
  return Report(options, std::move(rows));
}

Status Report::head() const {
  const PerfArguments& asked = options_->asked;
  const CorePair cores = first_cores();
  const std::string hosts = asked.hosts == 1 ? "" : fmt::format(" on {} hosts", asked.hosts);
  const std::string target = options_->window ? fmt::format(", the target {}", asked.target) : "";
  std::string by = asked.algorithm == "auto" ? "" : fmt::format(" by {}", asked.algorithm);
  if (asked.bits != "auto") by += fmt::format(" with bits {}", asked.bits);
  std::string text = fmt::format(
      "{}{}{} over {}, {} ranks{} {} {} cores, {}, {} memory{}{}; ping-pong {:.0f} ns\n",
      asked.operation, by, asked.dynamic ? " with weights that change every call" : "", asked.graph,
      asked.ranks, hosts, is_bound_to_core() ? "bound to" : "on", core_count(), asked.type,
      asked.memory, asked.in_place ? ", in place" : "", target, ping_pong_ns(cores));
  text +=
      fmt::format("{:>6} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>6} {:>9}", "bytes", "min us",
                  "p50 us", "p99 us", "algbw GB/s", "busbw GB/s", "limit us", "share", "CPU s/GiB");
  if (asked.dynamic) text += fmt::format(" {:>10} {:>6}", "static us", "ratio");
  if (options_->bits == Bits::fixed) text += fmt::format(" {:>10} {:>6}", "auto us", "price");
  if (asked.prepared) text += fmt::format(" {:>11} {:>7}", "prepared us", "speedup");
  if (!asked.against.empty()) text += fmt::format(" {:>12} {:>8}", asked.against, "speedup");
  if (options_->window == WindowOp::put)
    text += fmt::format(" {:>10} {:>6}", "visible us", "lines");
  if (options_->window == WindowOp::pages)
    text += fmt::format(" {:>10} {:>8}", "singles us", "speedup");
  return rows_.text(text + '\n');
}

Status Report::row(const Row& row) {
  drawn_.push_back(json(row));
  WEFT_RETURN_IF_ERROR(rows_.row(text(row) + '\n', drawn_.back()));
  if (rows_.has_text() && !row.no_limit.empty())
    fmt::print(stderr, "weft perf: no limit: {}\n", row.no_limit);
  return {};
}

Status Report::done() {
  WEFT_RETURN_IF_ERROR(rows_.close());
  if (options_->asked.svg.empty()) return {};
  WEFT_ASSIGN(const std::string picture, perf_svg(drawn_, options_->asked.operation));
  return save(options_->asked.svg, picture);
}

std::string Report::text(const Row& row) const {
  const double p50 = median(row.own.laps_us);
  const CountedBytes counted = options_->counted(row.bytes);
  std::string line =
      fmt::format("{:>6} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f}", bytes_text(row.bytes),
                  quantile(row.own.laps_us, 0), p50, quantile(row.own.laps_us, 0.99),
                  gbps(counted.algorithm, p50), gbps(counted.bus, p50));
  line += row.limit ? fmt::format(" {:>10.2f} {:>6.2f}", median(row.limit->laps_us),
                                  paired_ratio(*row.limit, row.own))
                    : fmt::format(" {:>10} {:>6}", "-", "-");
  line += fmt::format(" {:>9.3f}", row.own.cpu_s_per_gib);
  if (row.fixed) {
    line += fmt::format(" {:>10.2f} {:>6.2f}", median(row.fixed->laps_us),
                        paired_ratio(row.own, *row.fixed));
  }
  if (row.usual) {
    line += fmt::format(" {:>10.2f} {:>6.2f}", median(row.usual->laps_us),
                        paired_ratio(row.own, *row.usual));
  }
  if (row.prepared) {
    line += fmt::format(" {:>11.2f} {:>7.2f}", median(row.prepared->laps_us),
                        paired_ratio(row.own, *row.prepared));
  }
  if (row.peer) {
    line += fmt::format(" {:>12.2f} {:>8.2f}", median(row.peer->laps_us),
                        paired_ratio(*row.peer, row.own));
  }
  if (options_->asked.memory == "device")
    line += row.by_nccl ? "  by NCCL" : row.reads_gpus ? "  in place" : "  by blocks";
  return line + window_text(row);
}

std::string Report::window_text(const Row& row) const {
  if (row.singles) {
    return fmt::format(" {:>10.2f} {:>8.2f}", median(row.singles->laps_us),
                       paired_ratio(*row.singles, row.own));
  }
  if (!row.puts_in_turn) return {};
  const std::string visible = fmt::format(" {:>10.2f}", one_way_us(*row.puts_in_turn));
  if (!row.lines_in_turn) return visible;
  return visible + fmt::format(" {:>6.2f}", paired_ratio(*row.puts_in_turn, *row.lines_in_turn));
}

std::string Report::json(const Row& row) const {
  const PerfArguments& asked = options_->asked;
  const double p50 = median(row.own.laps_us);
  const CountedBytes counted = options_->counted(row.bytes);
  Json object{
      {"op", asked.operation},
      {"graph", asked.graph},
      {"algorithm", asked.algorithm},
      {"bits", asked.bits},
      {"ranks", asked.ranks},
      {"hosts", asked.hosts},
      {"lanes", asked.lanes},
      {"cores", core_count()},
      {"binding", is_bound_to_core() ? "core" : "none"},
      {"transport", asked.transport},
      {"memory", asked.memory},
      {"type", asked.type},
      {"dynamic", asked.dynamic},
      {"in_place", asked.in_place},
      {"checked", asked.check},
      {"bytes", row.bytes},
      {"min_us", quantile(row.own.laps_us, 0)},
      {"p50_us", p50},
      {"p99_us", quantile(row.own.laps_us, 0.99)},
      {"algbw_GBps", gbps(counted.algorithm, p50)},
      {"busbw_GBps", gbps(counted.bus, p50)},
      {"cpu_s_per_GiB", row.own.cpu_s_per_gib},
      {"allocations", row.own.allocations},
      {"network_bytes", network_bytes_each(row.own)},
      {"ping_pong_ns", row.ping_pong_ns},
  };
  if (row.limit) {
    object["limit_us"] = median(row.limit->laps_us);
    object["share"] = paired_ratio(*row.limit, row.own);
  }
  if (asked.memory == "device") {
    object["reads_gpus_of_peers"] = row.reads_gpus;
    object["by_nccl"] = row.by_nccl;
  }
  if (!row.no_limit.empty()) object["no_limit"] = row.no_limit;
  if (row.fixed) {
    object["static_p50_us"] = median(row.fixed->laps_us);
    object["dynamic_ratio"] = paired_ratio(row.own, *row.fixed);
  }
  if (row.usual) {
    object["auto_p50_us"] = median(row.usual->laps_us);
    object["price"] = paired_ratio(row.own, *row.usual);
  }
  if (row.prepared) {
    object["prepared_p50_us"] = median(row.prepared->laps_us);
    object["prepared_speedup"] = paired_ratio(row.own, *row.prepared);
  }
  if (row.peer) {
    object["peer"] = asked.against;
    object["peer_p50_us"] = median(row.peer->laps_us);
    object["peer_cpu_s_per_GiB"] = row.peer->cpu_s_per_gib;
    object["speedup"] = paired_ratio(*row.peer, row.own);
  }
  if (options_->window) add_window(object, row, asked);
  return object.dump();
}

Status report_sizes(const PerfOptions& options, bool leads,
                    const std::function<Result<Row>(std::size_t bytes)>& measure_size) {
  std::optional<Report> report;
  if (leads) {
    WEFT_ASSIGN(report, Report::open(options));
    WEFT_RETURN_IF_ERROR(report->head());
  }
  std::size_t rows = 0;
  std::int64_t begin = now_ns();
  for (const std::size_t bytes : options.sizes) {
    WEFT_ASSIGN(const Row row, measure_size(bytes));
    if (!report) continue;
    WEFT_RETURN_IF_ERROR(report->row(row));
    const std::int64_t now = now_ns();
    if (++rows < options.sizes.size() && now - begin > kSlowRowNs)
      fmt::print(stderr, "weft perf: {} of {} sizes, the last in {:.0f} s\n", rows,
                 options.sizes.size(), static_cast<double>(now - begin) / 1e9);
    begin = now;
  }
  return report ? report->done() : Status();
}

}  // namespace weft
