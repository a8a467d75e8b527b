// What `weft predict strategies` says: a table, JSON lines, and bars.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/weft/common/bytes.h"
#include "tools/weft/predict/strategies.h"
#include "tools/weft/strategies/bars.h"
#include "tools/weft/strategies/words.h"

namespace weft {
namespace {

std::string text_of(const ForecastResult& result) {
  const TrainingForecast& it = result.forecast;
  return fmt::format("{:<34} {:>9} {:>11.1f} {:>6.2f} {:>12.0f}  {:<14} {:>5.1f}% {:>6.1f}%\n",
                     result.strategy, straggler_text(result.straggler), it.steps_per_s, result.kept,
                     it.bytes_per_step, it.busiest, 100 * it.busiest_share, 100 * it.median_share);
}

nlohmann::ordered_json json_of(const ForecastResult& result, const ForecastArguments& asked) {
  const TrainingForecast& it = result.forecast;
  return {{"op", "forecast"},
          {"strategy", result.strategy},
          {"ranks", asked.ranks},
          {"per_machine", asked.per_machine},
          {"graph", asked.graph},
          {"size", asked.size},
          {"gbit_per_s", asked.network.gbit_per_s},
          {"compute_ms", asked.compute_ms},
          {"straggler", result.straggler},
          {"steps_per_s", it.steps_per_s},
          {"kept", result.kept},
          {"bytes_per_step", it.bytes_per_step},
          {"busiest", it.busiest},
          {"busiest_share", it.busiest_share},
          {"median_share", it.median_share},
          {"dropped", it.dropped}};
}

std::string head_of(const ForecastArguments& asked) {
  return fmt::format(
      "{} ranks, {} on each machine, which compute {} ms (within {}%) a step; a model of {}; "
      "interfaces of {} "
      "Gbit/s, {} us\n\n{:<34} {:>9} {:>11} {:>6} {:>12}  {:<14} {:>6} {:>7}\n",
      asked.ranks, asked.per_machine, asked.compute_ms, asked.spread, asked.size,
      asked.network.gbit_per_s, asked.network.latency_us, "strategy", "straggler", "steps/s",
      "kept", "bytes/step", "busiest link", "", "median");
}

std::string steps_drawn(const std::vector<ForecastResult>& results,
                        const ForecastArguments& asked) {
  std::vector<StrategyBar> bars;
  for (const ForecastResult& each : results) {
    const double length = each.forecast.steps_per_s;
    bars.push_back(
        {each.strategy, each.straggler, length, bar_text(length, each.kept, each.straggler)});
  }
  return draw_bars(bars,
                   fmt::format("Predicted steps/s of {} ranks that compute {} ms a step",
                               asked.ranks, asked.compute_ms),
                   kKeptText);
}

// Without a straggler, in which interfaces have most to do.
std::string links_drawn(const std::vector<ForecastResult>& results,
                        const ForecastArguments& asked) {
  std::vector<StrategyBar> bars;
  for (const ForecastResult& each : results) {
    if (each.straggler > 0) continue;
    const TrainingForecast& it = each.forecast;
    const auto add = [&](const std::string& name, double share) {
      bars.push_back({name, 0, share, fmt::format("{:.1f}%", 100 * share)});
    };
    add(fmt::format("{}: {}", each.strategy, it.busiest), it.busiest_share);
    add("the median one", it.median_share);
  }
  return draw_bars(bars,
                   fmt::format("How busy the interfaces of {} ranks are, {} on each machine",
                               asked.ranks, asked.per_machine),
                   "the part of the time in which an interface sends or receives");
}

}  // namespace

Result<ForecastReport> ForecastReport::open(const ForecastArguments& asked) {
  ForecastReport report(asked);
  for (const std::string& drawing : {asked.svg, asked.links_svg})
    WEFT_RETURN_IF_ERROR(check_writable(drawing));
  WEFT_ASSIGN(report.rows_, Rows::open(asked.json));
  WEFT_RETURN_IF_ERROR(report.rows_.text(head_of(asked)));
  return report;
}

Status ForecastReport::add(const ForecastResult& result) {
  results_.push_back(result);
  WEFT_RETURN_IF_ERROR(rows_.text(text_of(result)));
  return rows_.json(json_of(result, asked_).dump());
}

Status ForecastReport::generator(double us_per_request) {
  const double share = us_per_request * asked_.ranks / (asked_.compute_ms * 1e3);
  WEFT_RETURN_IF_ERROR(rows_.text(fmt::format(
      "\nThe generator of smart groups takes {:.2f} us of a core for a request, measured on this "
      "machine:\n{:.1f}% of a core for {} ranks whose step takes {} ms.\n",
      us_per_request, 100 * share, asked_.ranks, asked_.compute_ms)));
  return rows_.json(nlohmann::ordered_json{
      {"op", "generator"},
      {"ranks", asked_.ranks},
      {"per_machine", asked_.per_machine},
      {"compute_ms", asked_.compute_ms},
      {"us_per_request", us_per_request},
      {"core_share",
       share}}.dump());
}

Status ForecastReport::close() {
  if (!asked_.svg.empty()) WEFT_RETURN_IF_ERROR(save(asked_.svg, steps_drawn(results_, asked_)));
  if (!asked_.links_svg.empty())
    WEFT_RETURN_IF_ERROR(save(asked_.links_svg, links_drawn(results_, asked_)));
  return rows_.close();
}

}  // namespace weft
