// The parts of `weft report`: each makes HTML of a file that another command has written. Text of files is escaped,
// and drawings are taken only if nothing in them runs or loads. Pure functions.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

struct ReportPart {
  std::string chapter;  // "Findings", "Curves", …
  std::string html;
};

// What `weft doctor --json` wrote.
[[nodiscard]] ReportPart part_of_findings(const nlohmann::json& report);
// Rows that `weft perf --json` or `weft predict --json` wrote.
[[nodiscard]] Result<ReportPart> part_of_rows(const std::vector<std::string>& rows,
                                              const std::string& name);
// A drawing of `weft topo --svg`, `weft map --svg` and others.
[[nodiscard]] Result<ReportPart> part_of_drawing(const std::string& svg, const std::string& name);
// The object of `weft topo --json`, and that of `weft map --json`.
[[nodiscard]] ReportPart part_of_machine(const nlohmann::json& machine, const std::string& name);
[[nodiscard]] ReportPart part_of_map(const nlohmann::json& map, const std::string& name);
// What `weft tune --explain` prints.
[[nodiscard]] ReportPart part_of_profile(const std::string& text);
// Metrics of a rank (WEFT_METRICS).
[[nodiscard]] Result<ReportPart> part_of_metrics(const std::string& text, const std::string& name);
// Timelines of ranks (WEFT_TRACE), as one: how busy each was, over time.
[[nodiscard]] Result<ReportPart> part_of_timelines(const std::vector<std::string>& paths);

// The command.
void add_report(CLI::App& app, std::function<int()>& action);

// The page: chapters in a fixed order, with a table of contents.
[[nodiscard]] std::string page_of(const std::string& title, const std::vector<ReportPart>& parts);

}  // namespace weft
