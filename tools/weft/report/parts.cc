// The chapters of a report.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "tools/weft/common/bytes.h"
#include "tools/weft/perf/plot.h"
#include "tools/weft/report/report.h"
#include "tools/weft/timeline/files.h"
#include "topology/svg/svg.h"

namespace weft {
namespace {

using Json = nlohmann::json;

std::string cell(std::string_view text, std::string_view tag = "td") {
  return fmt::format("<{0}>{1}</{0}>", tag, svg::escaped(text));
}

std::string row_of(const std::vector<std::string>& cells, std::string_view tag = "td") {
  std::string text = "<tr>";
  for (const std::string& each : cells) text += cell(each, tag);
  return text + "</tr>\n";
}

// A value of any kind as people read it; empty: there is none.
std::string shown(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return {};
  if (found->is_string()) return found->get<std::string>();
  if (found->is_number_float()) return fmt::format("{:.2f}", found->get<double>());
  if (!found->is_array()) return found->dump();
  std::string text;
  for (const Json& each : *found)
    text += (text.empty() ? "" : ", ") + (each.is_string() ? each.get<std::string>() : each.dump());
  return text;
}

// The objects of an array as rows; the first so many, and how many more there are.
std::string table_of(const Json& object, const char* key, const std::vector<const char*>& columns) {
  constexpr std::size_t kMostRows = 64;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array() || found->empty()) return {};
  std::string html = fmt::format("<table><caption>{}</caption>", key) +
                     row_of({columns.begin(), columns.end()}, "th");
  for (std::size_t i = 0; i < std::min(found->size(), kMostRows); ++i) {
    const Json& each = (*found)[i];
    std::vector<std::string> cells;
    for (const char* column : columns)
      cells.push_back(each.is_object() ? shown(each, column) : std::string());
    html += row_of(cells);
  }
  html += "</table>\n";
  if (found->size() > kMostRows)
    html += fmt::format("<p>and {} more</p>\n", found->size() - kMostRows);
  return html;
}

// "…&lt;script" and the like can hide nowhere: these words may not stand in a drawing at all.
bool is_harmless(const std::string& drawing) {
  constexpr std::array<std::string_view, 9> kActive = {
      "<script",     "<foreignobject", "<iframe", "<!doctype", "<!entity",
      "javascript:", "href",           "url(",    "@import"};
  std::string small = drawing;
  std::ranges::transform(small, small.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (std::ranges::any_of(
          kActive, [&](std::string_view word) { return small.find(word) != std::string::npos; }))
    return false;
  for (std::size_t at = small.find(" on"); at != std::string::npos;
       at = small.find(" on", at + 1)) {
    const std::size_t end = small.find_first_not_of("abcdefghijklmnopqrstuvwxyz", at + 3);
    if (end != std::string::npos && end > at + 3 && small[end] == '=') return false;
  }
  return true;
}

// "<svg …>…</svg>" without what stands before it; nothing: it is none.
std::optional<std::string> drawing_in(const std::string& text) {
  const std::size_t begin = text.find("<svg");
  const std::size_t end = text.rfind("</svg>");
  if (begin == std::string::npos || end == std::string::npos || end < begin) return std::nullopt;
  return text.substr(begin, end + 6 - begin);
}

// Ids and styles of several drawings in one page would meet, so each is a picture of its own.
std::string as_picture(const std::string& drawing, const std::string& name) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string code;
  for (std::size_t at = 0; at < drawing.size(); at += 3) {
    std::uint32_t three = 0;
    for (std::size_t i = 0; i < 3; ++i)
      three =
          three << 8 | (at + i < drawing.size() ? static_cast<unsigned char>(drawing[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      code += at + i <= drawing.size() ? kDigits[three >> (18 - 6 * i) & 63] : '=';
  }
  return fmt::format(
      "<figure><img alt=\"{0}\" "
      "src=\"data:image/svg+xml;base64,{1}\"><figcaption>{0}</figcaption></figure>\n",
      svg::escaped(name), code);
}

struct Span {
  double begin = 0;
  double end = 0;
};

// How much of each of `kBins` parts of [0, whole] the spans cover; they may overlap.
constexpr std::size_t kBins = 120;
std::vector<double> covered(std::vector<Span> spans, double whole) {
  std::ranges::sort(spans, {}, &Span::begin);
  std::vector<double> bins(kBins);
  const double width = whole / kBins;
  double until = 0;
  for (Span span : spans) {
    span.begin = std::max(span.begin, until);
    until = std::max(until, span.end);
    for (double at = span.begin; at < span.end;) {
      const auto bin = std::min(static_cast<std::size_t>(at / width), kBins - 1);
      const double end =
          bin + 1 == kBins ? span.end : std::min(span.end, static_cast<double>(bin + 1) * width);
      if (end <= at) break;
      bins[bin] += (end - at) / width;
      at = end;
    }
  }
  return bins;
}

}  // namespace

ReportPart part_of_findings(const Json& report) {
  std::string html =
      fmt::format("<p>{} hosts, {} findings.</p>\n", report.value("hosts", Json::array()).size(),
                  report["findings"].size());
  for (const Json& finding : report["findings"]) {
    const std::string severity = shown(finding, "severity");
    html += fmt::format("<article class=\"{0}\"><h3>{0}: {1}</h3><table>", svg::escaped(severity),
                        svg::escaped(shown(finding, "what")));
    for (const char* key : {"hosts", "seen", "mend"})
      if (const std::string text = shown(finding, key); !text.empty()) html += row_of({key, text});
    if (const auto cost = finding.find("cost"); cost != finding.end() && cost->is_object())
      html += row_of({"costs", fmt::format("{} times as long, as weft predict counts",
                                           shown(*cost, "times"))});
    html += "</table></article>\n";
  }
  for (const Json& missing : report.value("missing", Json::array()))
    html +=
        fmt::format("<p class=\"warning\">not looked at: {}</p>\n", svg::escaped(missing.dump()));
  return {"Findings", html};
}

Result<ReportPart> part_of_rows(const std::vector<std::string>& rows, const std::string& name) {
  std::string html;
  if (Result<std::string> picture = perf_svg(rows, name); picture.ok())
    html = as_picture(*picture, name);
  const std::array columns = {"op",     "operation",   "algorithm",  "ranks",      "bytes",
                              "p50_us", "us",          "algbw_GBps", "busbw_GBps", "limit_us",
                              "share",  "peer_p50_us", "speedup"};
  std::string table;
  std::vector<std::string> used;
  std::vector<Json> objects;
  for (const std::string& row : rows) {
    if (row.empty()) continue;
    Json object = Json::parse(row, nullptr, false);
    if (!object.is_object() || !object.contains("bytes"))
      return Status(Code::invalid_argument,
                    fmt::format("{}: a line is no row of weft perf or weft predict", name));
    objects.push_back(std::move(object));
  }
  for (const char* column : columns)
    if (std::ranges::any_of(objects,
                            [&](const Json& object) { return !shown(object, column).empty(); }))
      used.emplace_back(column);
  for (const Json& object : objects) {
    std::vector<std::string> cells;
    for (const std::string& column : used) cells.push_back(shown(object, column.c_str()));
    table += row_of(cells);
  }
  return ReportPart{"Curves", html + fmt::format("<table><caption>{}</caption>{}{}</table>\n",
                                                 svg::escaped(name), row_of(used, "th"), table)};
}

Result<ReportPart> part_of_drawing(const std::string& text, const std::string& name) {
  const std::optional<std::string> drawing = drawing_in(text);
  if (!drawing)
    return Status(Code::invalid_argument,
                  fmt::format("{}: no drawing, or one that is cut short", name));
  if (!is_harmless(*drawing))
    return Status(Code::invalid_argument,
                  fmt::format("{}: the drawing has parts that run or load something", name));
  return ReportPart{"Hardware and mapping", as_picture(*drawing, name)};
}

ReportPart part_of_machine(const Json& machine, const std::string& name) {
  std::string html = fmt::format("<h3>{}</h3><table>", svg::escaped(name));
  for (const char* key : {"source", "cpu", "packages", "cores", "threads", "unknown", "left_out"})
    if (const std::string text = shown(machine, key); !text.empty()) html += row_of({key, text});
  html += "</table>\n";
  html += table_of(machine, "nics", {"name", "netdev", "mbit_per_s", "bond"});
  html += table_of(machine, "gpus", {"index", "model", "memory_bytes", "uuid"});
  html += table_of(machine, "gpu_links", {"gpu", "peer", "kind", "lanes", "gbyte_per_s"});
  return {"Hardware and mapping", html};
}

ReportPart part_of_map(const Json& map, const std::string& name) {
  std::string html = fmt::format("<h3>{}</h3><table>", svg::escaped(name));
  for (const char* key : {"cluster", "graph", "policy", "bytes", "us", "links_us", "complete"})
    if (const std::string text = shown(map, key); !text.empty()) html += row_of({key, text});
  html += "</table>\n";
  html += table_of(map, "loads", {"name", "gbit_per_s", "messages", "us"});
  html += table_of(map, "ranks", {"rank", "seat", "machine", "reason"});
  return {"Hardware and mapping", html};
}

ReportPart part_of_profile(const std::string& text) {
  std::string html = "<pre>";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    html += svg::escaped(text.substr(at, end - at)) + '\n';
    at = end + 1;
  }
  return {"Tuning", html + "</pre>\n"};
}

Result<ReportPart> part_of_metrics(const std::string& text, const std::string& name) {
  std::string table;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t blank = line.rfind(' ');
    if (!line.starts_with("weft_") || blank == std::string::npos ||
        line.find("_bucket") != std::string::npos)
      continue;
    if (line.substr(blank + 1) == "0") continue;
    table += row_of({line.substr(0, blank), line.substr(blank + 1)});
  }
  if (table.empty())
    return Status(Code::invalid_argument, fmt::format("{}: has no metrics of weft", name));
  return ReportPart{"Metrics",
                    fmt::format("<details><summary>{}</summary><table>{}</table></details>\n",
                                svg::escaped(name), table)};
}

Result<ReportPart> part_of_timelines(const std::vector<std::string>& paths) {
  std::vector<TimelineFile> files;
  for (const std::string& path : paths) {
    WEFT_ASSIGN(TimelineFile file, read_timeline(path));
    files.push_back(std::move(file));
  }
  std::map<int, std::map<std::string, std::vector<Span>>> spans;  // by rank: "busy", "wait"
  std::map<std::string, double> open;
  double whole = 1;
  for (const Json& event : merge_timelines(std::move(files))) {
    const std::string phase = shown(event, "ph");
    if (phase != "b" && phase != "e" && phase != "X") continue;
    const int rank = event["pid"].get<int>();
    const double ts = event["ts"].get<double>();
    const std::string kind = shown(event, "cat") == "wait" ? "wait" : "busy";
    whole = std::max(whole, ts);
    const std::string id = fmt::format("{} {} {} {}", rank, shown(event, "id2"),
                                       shown(event, "name"), shown(event, "cat"));
    if (phase == "b") {
      open[id] = ts;
    } else if (phase == "e") {
      if (const auto begin = open.find(id); begin != open.end()) {
        spans[rank][kind].push_back({begin->second, ts});
        open.erase(begin);
      }
    }
  }
  constexpr double kWidth = 7, kHeight = 18, kLeft = 70;
  std::string elements;
  double y = 10;
  for (auto& [rank, kinds] : spans) {
    elements += svg::text(4, y + 13, "font-size=\"12\" font-family=\"sans-serif\"",
                          fmt::format("rank {}", rank));
    const std::vector<double> busy = covered(kinds["busy"], whole);
    const std::vector<double> wait = covered(kinds["wait"], whole);
    for (std::size_t bin = 0; bin < kBins; ++bin) {
      const double x = kLeft + kWidth * static_cast<double>(bin);
      const double high = kHeight * std::min(busy[bin], 1.0);
      const double low = kHeight * std::min(wait[bin], busy[bin]);
      if (high > 0)
        elements += svg::rect(
            {x, y + kHeight - high, kWidth - 1, high}, "fill=\"#3b76b3\"",
            fmt::format("operations run {:.0f}% of this time", 100 * std::min(busy[bin], 1.0)));
      if (low > 0)
        elements += svg::rect({x, y + kHeight - low, kWidth - 1, low}, "fill=\"#e0a030\"");
    }
    y += kHeight + 6;
  }
  elements += svg::text(
      kLeft, y + 12, "font-size=\"12\" font-family=\"sans-serif\"",
      fmt::format("0 to {:.1f} ms; blue: operations run; yellow: the program waits for them",
                  whole / 1e3));
  if (spans.empty())
    return Status(Code::invalid_argument,
                  fmt::format("{}: no operations in this timeline", paths.front()));
  return ReportPart{"Over time",
                    as_picture(svg::document({0, 0, kLeft + kWidth * kBins + 10, y + 20}, elements),
                               "use over time, by rank")};
}

std::string page_of(const std::string& title, const std::vector<ReportPart>& parts) {
  constexpr std::array<std::string_view, 6> kOrder = {
      "Findings", "Hardware and mapping", "Curves", "Over time", "Tuning", "Metrics"};
  std::string contents, body;
  for (const std::string_view chapter : kOrder) {
    std::string all;
    for (const ReportPart& part : parts)
      if (part.chapter == chapter) all += part.html;
    if (all.empty()) continue;
    const auto number = std::ranges::find(kOrder, chapter) - kOrder.begin();
    contents += fmt::format("<li><a href=\"#c{}\">{}</a></li>", number, chapter);
    body += fmt::format("<section id=\"c{}\"><h2>{}</h2>\n{}</section>\n", number, chapter, all);
  }
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'\">\n"
      "<style>body{{font:15px/1.45 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 "
      "1rem;color:#222;background:#fff}}"
      "table{{border-collapse:collapse;margin:.6rem 0}}td,th{{padding:.15rem "
      ".6rem;border-bottom:1px solid #ddd;text-align:left;"
      "font-variant-numeric:tabular-nums}}img{{max-width:100%}}figure{{margin:1rem "
      "0}}figcaption,caption{{color:#666;text-align:left}}"
      "article{{border-left:5px solid #999;padding:.1rem .8rem;margin:.8rem "
      "0}}article.severe{{border-color:#b3261e}}"
      "article.warning{{border-color:#c77700}}pre{{overflow:auto;background:#f6f6f6;padding:.6rem}}"
      "nav ul{{display:flex;gap:1.2rem;"
      "list-style:none;padding:0}}</style></head>\n<body><h1>{0}</h1><nav><ul>{1}</ul></nav>\n{2}</"
      "body></html>\n",
      svg::escaped(title), contents, body);
}

}  // namespace weft
