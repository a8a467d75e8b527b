// Reading, shifting and joining of timelines.
#include "tools/weft/timeline/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "topology/json/json.h"
#include "topology/text/text.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "weft 1";
constexpr std::size_t kMostFile = std::size_t{4} << 30;
constexpr std::uint64_t kLanesOfFile = 1000;  // more than a context has
// More than this format has: what writes, copies and sums up events goes down by calling itself.
constexpr int kDeepest = 32;
constexpr double kMostRank = 1 << 30;
constexpr std::uint64_t kMostRanks = 1 << 16;

Status invalid(const std::string& path, std::string_view why) {
  return Status(Code::invalid_argument, fmt::format("{}: {}", path, why));
}

bool has_number(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number();
}

bool is_whole(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() &&
         std::abs(found->get<double>()) < kMostRank;
}

// Whether an event is one that this format has. "M" (names) has no time.
bool is_event(const json& event) {
  const auto phase = event.is_object() ? event.find("ph") : event.end();
  if (!event.is_object() || phase == event.end() || !phase->is_string()) return false;
  if (!is_whole(event, "pid") || !is_whole(event, "tid")) return false;
  if (event.contains("args") && !event["args"].is_object()) return false;
  return has_number(event, "ts") || (*phase == "M" && !event.contains("ts"));
}

// What the file says about its context. False: it cannot be understood.
bool take_context(const json& about, TimelineFile& file) {
  const auto ranks = about.find("ranks");
  if (ranks == about.end()) return true;
  const auto is_rank = [](const json& each) {
    return each.is_number_unsigned() && each.get<std::uint64_t>() < kMostRanks;
  };
  if (!ranks->is_array() || ranks->size() > kMostRanks || !std::ranges::all_of(*ranks, is_rank))
    return false;
  file.context = text_of(about, "context");
  file.ranks = ranks->get<std::vector<Rank>>();
  const std::set<Rank> different(file.ranks.begin(), file.ranks.end());
  const auto rank = about.find("rank");
  if (rank == about.end() || !is_rank(*rank) || file.context.empty()) return false;
  file.rank = rank->get<Rank>();
  return file.rank < std::ssize(file.ranks) && different.size() == file.ranks.size();
}

// What tells the files of one rank apart.
std::string label(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

}  // namespace

Result<TimelineFile> read_timeline(const std::string& path) {
  const Result<std::string> text = read_text(path, kMostFile);
  if (!text.ok()) return Status(Code::invalid_argument, std::string(text.status().text()));
  std::optional<json> document = parse_json(*text, kDeepest);
  if (!document) return invalid(path, "is no JSON, or is nested deeper than a timeline");
  if (!document->is_object()) return invalid(path, "is no timeline");
  const auto about = document->find("otherData");
  if (about == document->end() || !about->is_object() || text_of(*about, "format") != kFormat)
    return invalid(
        path, fmt::format("is no timeline of format \"{}\", which WEFT_TRACE writes", kFormat));
  const auto events = document->find("traceEvents");
  if (events == document->end() || !events->is_array()) return invalid(path, "has no events");
  TimelineFile result;
  result.path = path;
  result.machine = text_of(*about, "machine");
  if (has_number(*about, "day_us")) result.day_us = about->at("day_us").get<double>();
  if (!take_context(*about, result))
    return invalid(path, "what it says about its context cannot be understood");
  for (std::size_t i = 0; i < events->size(); ++i) {
    json& event = events->at(i);
    if (!is_event(event)) return invalid(path, fmt::format("event {} cannot be understood", i));
    result.events.push_back(std::move(event));
  }
  return result;
}

std::vector<nlohmann::json> merge_timelines(std::vector<TimelineFile> files) {
  // The offset of a machine is that of its first file: a later one may have a clock that was set
  // meanwhile.
  std::map<std::string, double> offsets;
  for (const TimelineFile& file : files) offsets.emplace(file.machine, file.day_us);
  double first = std::numeric_limits<double>::max();
  for (const TimelineFile& file : files) {
    for (const json& event : file.events)
      if (event.contains("ts"))
        first = std::min(first, event["ts"].get<double>() + offsets.at(file.machine));
  }
  std::map<std::int64_t, std::uint64_t> files_of_rank;
  std::vector<json> all;
  for (TimelineFile& file : files) {
    const double shift = offsets.at(file.machine) - first;
    std::uint64_t number = 0;
    if (!file.events.empty())
      number = files_of_rank[file.events.front()["pid"].get<std::int64_t>()]++;
    for (json& event : file.events) {
      if (event.contains("ts")) event["ts"] = event["ts"].get<double>() + shift;
      if (number != 0) event["tid"] = event["tid"].get<std::uint64_t>() + number * kLanesOfFile;
      if (event.contains("id2"))
        event["id2"] = {{"local", fmt::format("{}:{}", number, text_of(event["id2"], "local"))}};
      if (text_of(event, "name") == "thread_name" && event.contains("args"))
        event["args"]["name"] =
            fmt::format("{} ({})", text_of(event["args"], "name"), label(file.path));
      all.push_back(std::move(event));
    }
  }
  return all;
}

std::string timeline_text(const std::vector<nlohmann::json>& events) {
  std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  // Names of files are bytes; what is no UTF-8 is replaced.
  constexpr auto kReplace = json::error_handler_t::replace;
  for (std::size_t i = 0; i < events.size(); ++i)
    text += (i == 0 ? "" : ",\n") + events[i].dump(-1, ' ', false, kReplace);
  return text + "\n],\"otherData\":{\"format\":\"" + kFormat + "\"}}\n";
}

}  // namespace weft
