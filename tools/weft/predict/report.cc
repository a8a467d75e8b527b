// Columns and keys.
#include "tools/weft/predict/report.h"

#include <fmt/format.h>

#include <algorithm>
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
                              {"algbw_GBps", gbyte_per_s(row.counted.algorithm, row.us)},
                              {"busbw_GBps", gbyte_per_s(row.counted.bus, row.us)}};
  if (row.usual_us > 0) {
    json["usual_us"] = row.usual_us;
    json["price"] = row.us / row.usual_us;
  }
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
  report.explains_ = asked.explain;
  for (const Collective operation : options.operations)
    report.width_ = std::max(report.width_, name(operation).size());
  report.compute_us_ = asked.compute_ms * 1e3;
  report.are_fixed_ = options.bits == Bits::fixed;
  report.is_placed_ = asked.place.is_asked;
  report.has_lanes_ = !asked.lanes.empty();
  report.graph_ = asked.graph;
  for (const std::string& drawing : {asked.svg, asked.run_svg, asked.plan_svg})
    WEFT_RETURN_IF_ERROR(check_writable(drawing));
  WEFT_ASSIGN(report.rows_, Rows::open(asked.json));
  return report;
}

Status PredictReport::head(const Cluster& cluster) const {
  return rows_.text(
      describe(cluster) +
      fmt::format("{:<{}} {:<16} {:>6} {:>6}{} {:>12}{}{}{} {:>11} {:>11} {:>9}  {}\n", "operation",
                  width_, "algorithm", "ranks", "bytes", has_lanes_ ? "   lanes" : "", "us",
                  are_fixed_ ? "  price" : "", is_placed_ ? "  identity us" : "",
                  compute_us_ > 0 ? "  iteration us" : "", "algbw GB/s", "busbw GB/s", "of ideal",
                  "busiest link"));
}

Status PredictReport::placement(int ranks, const FoundPlacement& found) const {
  return rows_.text(
      fmt::format("\nseats of {} ranks, searched for {}; the links of one exchange take\n{}\n",
                  ranks, graph_, weft::text(found)));
}

Status PredictReport::advice(const PredictRow& row, const RowAdvice& advice) const {
  const std::string text = advice_text(row, advice);
  if (text.empty()) return {};
  return rows_.text(
      fmt::format("\nlanes: {}{} of {} on {} ranks: {}\n", row.operation,
                  row.algorithm == row.operation ? "" : fmt::format(" {}", row.algorithm),
                  bytes_text(row.bytes), row.ranks, text));
}

Status PredictReport::row(const PredictRow& row, const RowAdvice* advice) const {
  nlohmann::ordered_json json = json_of(row, compute_us_);
  if (explains_) {
    json["phases"] = json_of(row.phases);
    json["links"] = json_of(row.links);
    json["advised"] = advice == nullptr ? nlohmann::ordered_json() : json_of(*advice);
  }
  return rows_.row(text(row, advice), json.dump());
}

std::string PredictReport::text(const PredictRow& row, const RowAdvice* advice) const {
  const std::string iteration =
      compute_us_ > 0 ? fmt::format(" {:>13.1f}", row.us + compute_us_) : "";
  std::string price;
  if (are_fixed_)
    price = fmt::format(" {:>6}",
                        row.usual_us > 0 ? fmt::format("{:.2f}", row.us / row.usual_us) : "-");
  std::string identity;
  if (is_placed_) {
    identity =
        fmt::format(" {:>12}", row.identity_us > 0 ? fmt::format("{:.1f}", row.identity_us) : "-");
  }
  const std::string link =
      row.busiest.empty() ? "-" : fmt::format("{}: {:.0f}%", row.busiest, 100 * row.busiest_share);
  std::string text =
      fmt::format("{:<{}} {:<16} {:>6} {:>6}{} {:>12.1f}{}{}{} {:>11.2f} {:>11.2f} {:>9}  {}\n",
                  row.operation, width_, row.algorithm, row.ranks, bytes_text(row.bytes),
                  has_lanes_ ? fmt::format(" {:>7}", lanes_text(row)) : "", row.us, price, identity,
                  iteration, gbyte_per_s(row.counted.algorithm, row.us),
                  gbyte_per_s(row.counted.bus, row.us), share_text(row), link);
  if (explains_) {
    text += fmt::format("    plan: {}\n    time: {}\n    {} messages; {}\n", row.reason, row.path,
                        row.messages, row.alike_reason);
  }
  const std::string lanes = advice == nullptr ? "" : advice_text(row, *advice);
  if (!lanes.empty()) text += fmt::format("    lanes: {}\n", lanes);
  return text;
}

}  // namespace weft
