// Rows become curves.
#include "tools/weft/perf/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/weft/common/bytes.h"
#include "tools/weft/common/chart.h"
#include "topology/text/text.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostFile = std::size_t{64} << 20;
constexpr std::size_t kMostCurves = 64;
constexpr double kMostNumber = 0x1p60;  // of bytes or microseconds; more is none

// What a plot takes from a row; a time that is missing is 0.
struct Measured {
  std::string operation;  // and what differs from a plain measurement
  int ranks = 0;
  std::string graph;
  std::string peer;
  double bytes = 0;
  double own_us = 0;
  double limit_us = 0;
  double peer_us = 0;
  double speedup = 0;
};

double number(const Json& row, const char* key) {
  const auto found = row.find(key);
  const double value = found != row.end() && found->is_number() ? found->get<double>() : 0;
  return value < kMostNumber ? value : 0;
}

std::string word(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_string() ? found->get<std::string>() : "";
}

bool is_set(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_boolean() && found->get<bool>();
}

// What differs from a plain measurement is named.
std::string operation_of(const Json& row) {
  std::string text = word(row, "op");
  const std::string algorithm = word(row, "algorithm"), transport = word(row, "transport");
  if (!algorithm.empty() && algorithm != "auto") text += ", " + algorithm;
  if (!transport.empty() && transport != "shm") text += ", " + transport;
  if (word(row, "memory") == "private") text += ", private memory";
  if (word(row, "peer") == "openmpi-huge") text += ", huge pages";
  if (is_set(row, "dynamic")) text += ", new weights";
  if (is_set(row, "in_place")) text += ", in place";
  return text;
}

Result<Measured> measured_in(const std::string& line, const std::string& where) {
  const auto wrong = [&where](std::string_view what) {
    return Status(Code::invalid_argument, fmt::format("{}: {}", where, what));
  };
  const Json row = Json::parse(line, nullptr, false);
  if (!row.is_object()) return wrong("is no JSON object, as weft perf --json writes them");
  Measured found{
      operation_of(row),       static_cast<int>(std::clamp(number(row, "ranks"), 0.0, 1e6)),
      word(row, "graph"),      word(row, "peer"),
      number(row, "bytes"),    number(row, "p50_us"),
      number(row, "limit_us"), number(row, "peer_p50_us"),
      number(row, "speedup")};
  if (word(row, "op").empty()) return wrong("a row needs \"op\"");
  if (!(found.bytes > 0)) return wrong("a row needs \"bytes\"");
  if (!(found.own_us > 0)) return wrong("a row needs \"p50_us\"");
  return found;
}

void add(std::vector<Curve>& curves, const std::string& label, double bytes, double value) {
  if (!(value > 0)) return;
  auto curve = std::ranges::find(curves, label, &Curve::label);
  if (curve == curves.end()) curve = curves.insert(curves.end(), {label, {}});
  curve->values.push_back({bytes, value});
}

std::string size_text(double bytes) {
  return bytes_text(static_cast<std::size_t>(bytes));
}

std::string ratio_text(double ratio) {
  return fmt::format("{:.3g}", ratio);
}

// Rows by what they measure. What all of them have in common is said once, in the title.
class Series {
 public:
  explicit Series(const std::vector<Measured>& rows) {
    for (const Measured& row : rows) {
      operations_.insert(row.operation);
      ranks_.insert(row.ranks);
      graphs_.insert(row.graph);
      names_.insert(name_of(row));
    }
  }

  [[nodiscard]] std::size_t count() const { return names_.size(); }
  [[nodiscard]] std::string label(const Measured& row) const {
    std::string text = row.operation;
    if (ranks_.size() > 1) text += fmt::format(", {} ranks", row.ranks);
    if (graphs_.size() > 1) text += ", " + row.graph;
    return text;
  }
  [[nodiscard]] std::string in_common() const {
    std::string text = operations_.size() == 1 ? *operations_.begin() : "weft perf";
    if (ranks_.size() == 1) text += fmt::format(", {} ranks", *ranks_.begin());
    if (graphs_.size() == 1 && !graphs_.begin()->empty()) text += ", " + *graphs_.begin();
    return text;
  }

 private:
  static std::string name_of(const Measured& row) {
    return fmt::format("{}, {} ranks, {}", row.operation, row.ranks, row.graph);
  }

  std::set<std::string> operations_, graphs_, names_;
  std::set<int> ranks_;
};

std::string times(const std::vector<Measured>& rows, const Series& series) {
  std::vector<Curve> curves;
  for (const Measured& row : rows) {
    add(curves, "Weft", row.bytes, row.own_us);
    add(curves, "limit", row.bytes, row.limit_us);
    add(curves, row.peer, row.bytes, row.peer_us);
  }
  return draw_chart(std::move(curves),
                    {series.in_common(), "bytes", "time (median)", size_text, us_text});
}

std::string several_times(const std::vector<Measured>& rows, const Series& series) {
  std::vector<Curve> curves;
  for (const Measured& row : rows) add(curves, series.label(row), row.bytes, row.own_us);
  return draw_chart(std::move(curves),
                    {series.in_common(), "bytes", "time (median)", size_text, us_text});
}

// The peer itself is the line at 1.
std::string speedups(const std::vector<Measured>& rows, const Series& series) {
  std::vector<Curve> curves;
  std::set<double> sizes;
  for (const Measured& row : rows) {
    add(curves, series.label(row), row.bytes, row.speedup);
    sizes.insert(row.bytes);
  }
  for (const double bytes : sizes) add(curves, rows.front().peer, bytes, 1);
  curves.back().is_reference = true;
  return draw_chart(std::move(curves),
                    {series.in_common(), "bytes",
                     fmt::format("times as fast as {}", rows.front().peer), size_text, ratio_text});
}

}  // namespace

Result<std::vector<std::string>> read_rows(const std::string& path) {
  WEFT_ASSIGN(const std::string text, read_text(path, kMostFile));
  std::vector<std::string> rows;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    rows.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return rows;
}

Result<std::string> perf_svg(const std::vector<std::string>& rows, const std::string& name) {
  std::vector<Measured> measured;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].empty()) continue;
    WEFT_ASSIGN(Measured row, measured_in(rows[i], fmt::format("{}:{}", name, i + 1)));
    measured.push_back(std::move(row));
  }
  if (measured.empty()) return Status(Code::invalid_argument, name + ": has no row to draw");
  const Series series(measured);
  if (series.count() == 1) return times(measured, series);
  if (series.count() > kMostCurves) {
    return Status(Code::invalid_argument, fmt::format("{}: {} series; at most {} can be drawn",
                                                      name, series.count(), kMostCurves));
  }
  const bool has_peer = std::ranges::all_of(
      measured, [](const Measured& row) { return row.speedup > 0 && !row.peer.empty(); });
  return has_peer ? speedups(measured, series) : several_times(measured, series);
}

}  // namespace weft
