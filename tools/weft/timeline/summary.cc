// Spans of a timeline, added up.
#include "tools/weft/timeline/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>

#include "topology/json/json.h"

namespace weft {
namespace {

using nlohmann::json;
using Named = std::map<std::string, std::vector<double>>;

constexpr std::array<std::string_view, 3> kPhases = {"queued", "agreed on", "run"};
constexpr std::size_t kMostNames = 5;  // that are shown, the slowest ones

double number_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

const json& args_of(const json& event) {
  static const json kNone = json::object();
  const auto found = event.find("args");
  return found != event.end() && found->is_object() ? *found : kNone;
}

// What one rank's events add up to.
struct Course {
  double first = std::numeric_limits<double>::max();
  double last = 0;
  Named operations, waits, combines, names, phases, windows;
  double unfinished = 0;
  double lost = 0;
  // Asynchronous spans that have begun: by category, id and name.
  std::map<std::tuple<std::string, std::string, std::string>, json> open;

  void take(const json& event) {
    const std::string phase = text_of(event, "ph");
    if (phase == "M") {
      lost += number_of(args_of(event), "records_lost");
      return;
    }
    const double ts = number_of(event, "ts");
    first = std::min(first, ts);
    last = std::max(last, ts + number_of(event, "dur"));
    if (phase == "X") combines["combine"].push_back(number_of(event, "dur"));
    if (phase != "b" && phase != "e") return;
    const json none = json::object();
    const auto id = event.contains("id2") ? text_of(event["id2"], "local") : std::string();
    const std::tuple key{text_of(event, "cat"), id, text_of(event, "name")};
    if (phase == "b") {
      open.insert_or_assign(key, event);
      return;
    }
    const auto begin = open.find(key);
    if (begin == open.end()) return;
    add(begin->second, ts - number_of(begin->second, "ts"));
    open.erase(begin);
  }

  void add(const json& begin, double us) {
    const std::string category = text_of(begin, "cat");
    const std::string name = text_of(begin, "name");
    if (args_of(begin).contains("unfinished")) unfinished += 1;
    if (category == "operation") operations[name].push_back(us);
    if (category == "window") windows[name].push_back(us);
    if (category == "wait") {
      waits[fmt::format("rank {:.0f}", number_of(args_of(begin), "peer"))].push_back(us);
    }
    if (category != "name") return;
    const bool is_phase =
        std::ranges::find(kPhases, name) != kPhases.end() && !args_of(begin).contains("result");
    (is_phase ? phases : names)[name].push_back(us);
  }
};

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Those that took longest in all come first.
std::vector<TimelineTimes> sorted(Named named) {
  std::vector<TimelineTimes> all;
  for (auto& [name, us] : named) {
    std::ranges::sort(us);
    all.push_back({name, std::move(us)});
  }
  std::ranges::stable_sort(all, std::greater(),
                           [](const TimelineTimes& times) { return sum(times.us); });
  return all;
}

double median(const std::vector<double>& ascending) {
  return ascending.empty() ? 0 : ascending[ascending.size() / 2];
}

void add_table(std::vector<std::string>& lines, std::string_view title,
               const std::vector<TimelineTimes>& rows, std::size_t most) {
  if (rows.empty()) return;
  lines.push_back(fmt::format("  {:<34} {:>8} {:>11} {:>11} {:>11}", title, "count", "total ms",
                              "median us", "longest us"));
  for (std::size_t i = 0; i < rows.size() && i < most; ++i) {
    const TimelineTimes& row = rows[i];
    lines.push_back(fmt::format("    {:<32} {:>8} {:>11.3f} {:>11.1f} {:>11.1f}", row.name,
                                row.us.size(), sum(row.us) / 1e3, median(row.us), row.us.back()));
  }
  if (rows.size() > most) lines.push_back(fmt::format("    and {} more", rows.size() - most));
}

nlohmann::ordered_json to_json(const std::vector<TimelineTimes>& rows) {
  auto all = nlohmann::ordered_json::array();
  for (const TimelineTimes& row : rows) {
    all.push_back({{"name", row.name},
                   {"count", row.us.size()},
                   {"total_us", sum(row.us)},
                   {"p50_us", median(row.us)},
                   {"max_us", row.us.empty() ? 0 : row.us.back()}});
  }
  return all;
}

}  // namespace

std::vector<TimelineOfRank> summarize(const std::vector<nlohmann::json>& events) {
  std::map<int, Course> courses;
  for (const json& event : events) courses[static_cast<int>(number_of(event, "pid"))].take(event);
  std::vector<TimelineOfRank> all;
  for (auto& [rank, course] : courses) {
    TimelineOfRank one;
    one.rank = rank;
    one.us = std::max(0.0, course.last - course.first);
    one.operations = sorted(std::move(course.operations));
    one.waits = sorted(std::move(course.waits));
    one.combines = sorted(std::move(course.combines));
    one.names = sorted(std::move(course.names));
    one.phases = sorted(std::move(course.phases));
    one.windows = sorted(std::move(course.windows));
    one.unfinished = course.unfinished;
    one.lost = course.lost;
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<std::string> describe(const TimelineOfRank& rank) {
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  std::vector<std::string> lines;
  std::string head = fmt::format("rank {}: {:.3f} ms", rank.rank, rank.us / 1e3);
  if (rank.unfinished != 0) head += fmt::format(", {:.0f} without an end", rank.unfinished);
  if (rank.lost != 0) head += fmt::format(", {:.0f} older records were overwritten", rank.lost);
  lines.push_back(head);
  add_table(lines, "operations", rank.operations, kAll);
  add_table(lines, "by name, what they did", rank.phases, kAll);
  add_table(lines, "by name, the longest in all", rank.names, kMostNames);
  add_table(lines, "calls of windows", rank.windows, kAll);
  add_table(lines, "combining", rank.combines, kAll);
  add_table(lines, "waiting for", rank.waits, kAll);
  return lines;
}

nlohmann::ordered_json to_json(const TimelineOfRank& rank) {
  return {{"rank", rank.rank},
          {"us", rank.us},
          {"operations", to_json(rank.operations)},
          {"phases", to_json(rank.phases)},
          {"names", to_json(rank.names)},
          {"windows", to_json(rank.windows)},
          {"combining", to_json(rank.combines)},
          {"waiting", to_json(rank.waits)},
          {"unfinished", rank.unfinished},
          {"records_lost", rank.lost}};
}

}  // namespace weft
