// One row of each rank, then causes and remarks.
#include "tools/weft/top/show.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "engine/trace/trace.h"
#include "tools/weft/flight/judge.h"

namespace weft::dumps {
namespace {

using nlohmann::json;

constexpr double kPercent = 100;

std::string row_text(const RankRow& row, bool with_job) {
  constexpr double kMega = 1e6;
  const std::string whom =
      row.waits_for.empty() ? "-"
                            : fmt::format("{} ({:.1f} s)", ranks_text(row.waits_for), row.waits_s);
  std::string text = fmt::format("{:>5} {:16} {:>10.1f} {:>6.0f}  {:24} {}", row.rank, row.host,
                                 row.calls_per_s, kPercent * row.in_operations, whom, row.last);
  for (const RailRow& rail : row.rails)
    text += fmt::format("; {} {:.1f} MB/s", rail.rail, rail.bytes_per_s / kMega);
  if (row.names != 0) text += fmt::format("; {} names", row.names);
  if (with_job) text += "; job " + row.job;
  return text + '\n';
}

json to_json(const RankRow& row) {
  json rails = json::array();
  for (const RailRow& rail : row.rails)
    rails.push_back({{"rail", rail.rail},
                     {"bytes_per_s", rail.bytes_per_s},
                     {"share", rail.share()},
                     {"lost", rail.lost},
                     {"losses", rail.losses}});
  return {{"job", row.job},
          {"rank", row.rank},
          {"host", row.host},
          {"pid", row.process},
          {"calls_per_s", row.calls_per_s},
          {"last", row.last},
          {"waits_for", row.waits_for},
          {"waits_s", row.waits_s},
          {"in_operations", row.in_operations},
          {"slow", row.slow},
          {"names", row.names},
          {"rails", rails}};
}

json to_json(const Cause& cause) {
  return {{"kind", cause.kind}, {"job", cause.job},   {"ranks", cause.ranks},
          {"rail", cause.rail}, {"gain", cause.gain}, {"text", cause.text}};
}

std::string labels_of(const RankRow& row) {
  return metric_label("host", row.host) + "," + metric_label("weft_job", row.job) + "," +
         metric_label("rank", std::to_string(row.rank));
}

std::string head(const std::string& name, const std::string& help) {
  return fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n", name, help);
}

}  // namespace

std::string view_text(const View& view, const std::vector<std::string>& remarks) {
  std::set<std::string> jobs;
  for (const RankRow& row : view.ranks) jobs.insert(row.job);
  std::string text;
  if (!view.ranks.empty())
    text = fmt::format("{:>5} {:16} {:>10} {:>6}  {:24} {}\n", "rank", "host", "calls/s", "in op %",
                       "waits for", "last call; rails");
  for (const RankRow& row : view.ranks) text += row_text(row, jobs.size() > 1);
  for (const Cause& cause : view.causes)
    text +=
        fmt::format("  ! {}{}\n", cause.text, jobs.size() > 1 ? " (job " + cause.job + ")" : "");
  for (const std::string& remark : remarks) text += "  ? " + remark + "\n";
  return text;
}

std::string view_json(const View& view, const std::vector<std::string>& remarks) {
  json all = {{"time_ns", view.time_ns},
              {"ranks", json::array()},
              {"causes", json::array()},
              {"remarks", remarks}};
  for (const RankRow& row : view.ranks) all["ranks"].push_back(to_json(row));
  for (const Cause& cause : view.causes) all["causes"].push_back(to_json(cause));
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string view_metrics(const View& view) {
  std::string in_operations, slow, calls, rails, causes;
  for (const RankRow& row : view.ranks) {
    const std::string labels = labels_of(row);
    in_operations +=
        fmt::format("weft_top_in_operations_ratio{{{}}} {:.4f}\n", labels, row.in_operations);
    slow += fmt::format("weft_top_slow_factor{{{}}} {:.4f}\n", labels, row.slow);
    calls += fmt::format("weft_top_calls_per_second{{{}}} {:.2f}\n", labels, row.calls_per_s);
    for (const RailRow& rail : row.rails)
      if (rail.usual > 0)
        rails += fmt::format("weft_top_rail_share{{{},{}}} {:.4f}\n", labels,
                             metric_label("rail", rail.rail), rail.share());
  }
  std::map<std::string, int> by_kind;
  for (const char* kind :
       {"absent", "mismatch", "waits", "names", "failure", "slow_rank", "slow_rail", "lost_rail"})
    by_kind[kind] = 0;
  for (const Cause& cause : view.causes) ++by_kind[cause.kind];
  for (const auto& [kind, count] : by_kind)
    causes += fmt::format("weft_top_causes{{{}}} {}\n", metric_label("kind", kind), count);
  std::string text =
      head("weft_top_causes", "Causes of slowness that weft top names now.") + causes;
  const auto add = [&text](const std::string& name, const std::string& help,
                           const std::string& samples) {
    if (!samples.empty()) text += head(name, help) + samples;
  };
  add("weft_top_in_operations_ratio", "Part of its time that a rank is in operations.",
      in_operations);
  add("weft_top_slow_factor", "A rank's own work over that of the usual rank.", slow);
  add("weft_top_calls_per_second", "Operations of all ranks that a rank has called.", calls);
  add("weft_top_rail_share", "What a rail carries over what it has carried for long.", rails);
  return text;
}

}  // namespace weft::dumps
