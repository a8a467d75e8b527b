// weft report: one page of what other commands have written.
#include "tools/weft/report/report.h"

#include <fmt/format.h>

#include <memory>

#include "engine/config/config.h"
#include "tools/weft/commands.h"
#include "tools/weft/common/save.h"
#include "tools/weft/perf/plot.h"
#include "tools/weft/tune/tune.h"
#include "topology/text/text.h"

namespace weft {
namespace {

constexpr std::size_t kMostFile = std::size_t{256} << 20;

struct ReportArguments {
  std::vector<std::string> files;
  std::string output = "weft-report.html";
  std::string title = "weft report";
};

constexpr const char* kExamples = R"(
The page needs no other file and no network. Files are told apart by what is in them:
  findings        weft doctor --json FILE
  curves          weft perf --json FILE, weft predict --json FILE
  hardware, map   weft topo --json FILE, weft map --json FILE
  drawings        weft topo --svg FILE, weft map --svg FILE, weft predict --run-svg FILE
  timelines       WEFT_TRACE=FILE, all ranks' together
  metrics         WEFT_METRICS=FILE
  a profile       weft tune
A file that is none of these, or is cut short, is named; the page has the others, and the exit status is 1.

Examples:
  weft report doctor.json perf.json topo.svg -o report.html
  weft report trace.*.json metrics.* --title "cluster 3, Monday")";

bool is_timeline(const std::string& text) {
  return text.substr(0, 4096).find("\"traceEvents\"") != std::string::npos;
}

Result<ReportPart> part_of(const std::string& path, const std::string& text) {
  if (path.ends_with(".svg") || text.find("<svg") < 512) return part_of_drawing(text, path);
  if (text.find("[settings]") != std::string::npos && text.find("format = ") != std::string::npos) {
    WEFT_ASSIGN(const Profile profile, parse_profile(text, path));
    return part_of_profile(explain(profile));
  }
  if (text.starts_with('{')) {
    const nlohmann::json whole = nlohmann::json::parse(text, nullptr, false);
    if (whole.is_object() && whole.contains("findings") && whole["findings"].is_array())
      return part_of_findings(whole);
    if (whole.is_object() && whole.contains("nics") && whole.contains("packages"))
      return part_of_machine(whole, path);
    if (whole.is_object() && whole.contains("edges") && whole.contains("loads"))
      return part_of_map(whole, path);
    WEFT_ASSIGN(const std::vector<std::string> rows, read_rows(path));
    return part_of_rows(rows, path);
  }
  if (text.starts_with("# ") || text.starts_with("weft_")) return part_of_metrics(text, path);
  return Status(
      Code::invalid_argument,
      fmt::format("{}: no file that this command reads; `weft report --help` lists them", path));
}

int run(const ReportArguments& arguments) {
  const auto complain = [](const Status& status) {
    fmt::print(stderr, "weft report: {}\n", status.text());
  };
  if (const Status status = check_writable(arguments.output); !status.ok()) {
    complain(status);
    return 1;
  }
  std::vector<ReportPart> parts;
  std::vector<std::string> timelines;
  bool is_whole = true;
  const auto add = [&](Result<ReportPart> part) {
    if (part.ok()) return parts.push_back(*std::move(part));
    complain(part.status());
    is_whole = false;
  };
  for (const std::string& path : arguments.files) {
    const Result<std::string> text = read_text(path, kMostFile);
    if (!text.ok()) {
      add(text.status());
    } else if (is_timeline(*text)) {
      timelines.push_back(path);
    } else {
      add(part_of(path, *text));
    }
  }
  if (!timelines.empty()) add(part_of_timelines(timelines));
  if (parts.empty()) return 1;
  if (const Status saved = save(arguments.output, page_of(arguments.title, parts)); !saved.ok()) {
    complain(saved);
    return 1;
  }
  fmt::print("{}\n", arguments.output);
  return is_whole ? 0 : 1;
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("report", "One HTML page of what other commands have written");
  command->option_defaults()->always_capture_default();
  const auto arguments = std::make_shared<ReportArguments>();
  command->add_option("files", arguments->files, "Files of other commands")->required();
  command->add_option("-o,--output", arguments->output, "Where the page is written");
  command->add_option("--title", arguments->title, "Its heading");
  command->footer(kExamples);
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace weft
