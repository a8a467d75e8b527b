// Columns and keys.
#include "tools/weft/predict/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "tools/weft/common/bytes.h"

namespace weft {
namespace {

double gbyte_per_s(double bytes, double us) {
  return us > 0 ? bytes / us / 1e3 : 0;
}

std::string share_text(const PredictRow& row) {
  return row.ideal_us > 0 && row.us > 0 ? fmt::format("{:.2f}", row.ideal_us / row.us) : "-";
}

nlohmann::ordered_json json_of(const PredictRow& row, double compute_us) {
  nlohmann::ordered_json json{{"operation", row.operation},
                              {"algorithm", row.algorithm},
                              {"ranks", row.ranks},
                              {"bytes", row.bytes},
                              {"lanes", row.lanes},
                              {"lanes_used", row.lanes_used},
                              {"us", row.us},
                              {"iteration_us", row.us + compute_us},
                              {"bus_gbyte_per_s", gbyte_per_s(row.bus_bytes, row.us)}};
  json["identity_us"] = row.identity_us > 0 ? nlohmann::ordered_json(row.identity_us) : nullptr;
  json["ideal_us"] = row.ideal_us > 0 ? nlohmann::ordered_json(row.ideal_us) : nullptr;
  json["messages"] = row.messages;
  json["alike"] = row.alike;
  json["busiest"] = row.busiest;
  json["busiest_share"] = row.busiest_share;
  json["path"] = row.path;
  json["lane_share"] = row.lane_share;
  json["reason"] = row.reason;
  return json;
}

nlohmann::ordered_json json_of(const std::vector<Phase>& phases) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Phase& phase : phases) {
    json.push_back({{"messages", phase.messages},
                    {"bytes", phase.bytes},
                    {"begin_us", phase.begin_us},
                    {"end_us", phase.end_us}});
  }
  return json;
}

nlohmann::ordered_json json_of(const std::vector<std::pair<std::string, Link>>& links) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const auto& [name, link] : links) {
    json.push_back({{"name", name},
                    {"gbit_per_s", link.bytes_per_us * 8 / 1e3},
                    {"bytes", link.bytes},
                    {"busy_us", link.busy_us}});
  }
  return json;
}

// Null: no more than one lane is recommended.
nlohmann::ordered_json json_of(const RowAdvice& advice) {
  if (advice.lanes.lanes == 1) return nullptr;
  return {{"lanes", advice.lanes.lanes}, {"us", advice.lanes.us}};
}

// "combining 72% of the critical path: 4 lanes would take 812.3 us (a rank has 8 cores)"; empty if
// there is nothing to say.
std::string advice_text(const PredictRow& row, const RowAdvice& advice) {
  const std::string work =
      fmt::format("{} {:.0f}% of the critical path", row.lane_work, 100 * row.lane_share);
  if (advice.lanes.lanes > 1) {
    return fmt::format("{}: {} lanes would take {:.1f} us {}", work, advice.lanes.lanes,
                       advice.lanes.us, advice.cores);
  }
  return advice.most > 1 ? ""
                         : fmt::format("{}, and no core for a second lane {}", work, advice.cores);
}

std::string lanes_text(const PredictRow& row) {
  return row.lanes == row.lanes_used ? fmt::format("{}", row.lanes)
                                     : fmt::format("{} of {}", row.lanes_used, row.lanes);
}

}  // namespace

Result<PredictReport> PredictReport::open(const PredictOptions& options) {
  const PredictArguments& asked = options.asked;
  PredictReport report;
  report.has_table_ = asked.json != "-";
  report.explains_ = asked.explain;
  for (const PredictedOperation operation : options.operations)
    report.width_ = std::max(report.width_, name(operation).size());
  report.compute_us_ = asked.compute_ms * 1e3;
  report.is_placed_ = asked.place.is_asked;
  report.has_lanes_ = !asked.lanes.empty();
  report.graph_ = asked.graph;
  if (asked.json.empty()) return report;
  report.json_.reset(asked.json == "-" ? stdout : std::fopen(asked.json.c_str(), "w"));
  report.path_ = asked.json;
  if (!report.json_) return system_error("cannot write " + asked.json, errno);
  return report;
}

Status PredictReport::close() {
  if (!json_) return {};
  errno = 0;
  const bool is_written = std::fflush(json_.get()) == 0 && std::ferror(json_.get()) == 0;
  return is_written ? Status{} : system_error("cannot write " + path_, errno);
}

void PredictReport::head(const Cluster& cluster) const {
  if (!has_table_) return;
  fmt::print("{}", describe(cluster));
  fmt::print("{:<{}} {:<16} {:>6} {:>6}{} {:>12}{}{} {:>9} {:>9}  {}\n", "operation", width_,
             "algorithm", "ranks", "bytes", has_lanes_ ? "   lanes" : "", "us",
             is_placed_ ? "  identity us" : "", compute_us_ > 0 ? "  iteration us" : "", "bus GB/s",
             "of ideal", "busiest link");
}

void PredictReport::placement(int ranks, const FoundPlacement& found) const {
  if (!has_table_) return;
  fmt::print("\nseats of {} ranks, searched for {}; the links of one exchange take\n{}\n", ranks,
             graph_, text(found));
}

void PredictReport::advice(const PredictRow& row, const RowAdvice& advice) const {
  const std::string text = advice_text(row, advice);
  if (!has_table_ || text.empty()) return;
  fmt::print("\nlanes: {}{} of {} on {} ranks: {}\n", row.operation,
             row.algorithm == row.operation ? "" : fmt::format(" {}", row.algorithm),
             bytes_text(row.bytes), row.ranks, text);
}

void PredictReport::row(const PredictRow& row, const RowAdvice* advice) const {
  if (has_table_) {
    const std::string iteration =
        compute_us_ > 0 ? fmt::format(" {:>13.1f}", row.us + compute_us_) : "";
    std::string identity;
    if (is_placed_) {
      identity = fmt::format(" {:>12}",
                             row.identity_us > 0 ? fmt::format("{:.1f}", row.identity_us) : "-");
    }
    const std::string link = row.busiest.empty()
                                 ? "-"
                                 : fmt::format("{}: {:.0f}%", row.busiest, 100 * row.busiest_share);
    fmt::print("{:<{}} {:<16} {:>6} {:>6}{} {:>12.1f}{}{} {:>9.2f} {:>9}  {}\n", row.operation,
               width_, row.algorithm, row.ranks, bytes_text(row.bytes),
               has_lanes_ ? fmt::format(" {:>7}", lanes_text(row)) : "", row.us, identity,
               iteration, gbyte_per_s(row.bus_bytes, row.us), share_text(row), link);
    if (explains_) {
      fmt::print("    plan: {}\n    time: {}\n    {} messages; {}\n", row.reason, row.path,
                 row.messages, row.alike_reason);
    }
    const std::string lanes = advice == nullptr ? "" : advice_text(row, *advice);
    if (!lanes.empty()) fmt::print("    lanes: {}\n", lanes);
  }
  if (!json_) return;
  nlohmann::ordered_json json = json_of(row, compute_us_);
  if (explains_) {
    json["phases"] = json_of(row.phases);
    json["links"] = json_of(row.links);
    json["advised"] = advice == nullptr ? nlohmann::ordered_json() : json_of(*advice);
  }
  fmt::print(json_.get(), "{}\n", json.dump());
}

}  // namespace weft
