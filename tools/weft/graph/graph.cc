// weft graph: what a graph or a schedule is, in words, as JSON and as a drawing.
#include <fmt/format.h>
#include <weft/graph.h>

#include <algorithm>

#include "tools/weft/commands.h"
#include "tools/weft/common/named_graph.h"
#include "tools/weft/common/save.h"
#include "tools/weft/graph/draw.h"
#include "tools/weft/graph/json.h"

namespace weft {
namespace {

struct Arguments {
  std::string name;
  int ranks = 0;
  std::string svg;
  bool json = false;
};

std::string known_names() {
  std::string text = "\nGraphs (NAME, or NAME:ARGUMENTS):\n";
  const auto add = [&text](const NamedKind& kind) {
    text += fmt::format("  {:<22} {:<24} {}\n", kind.name, kind.arguments, kind.description);
  };
  std::ranges::for_each(graph_names(), add);
  text += "\nSchedules, a graph per step:\n";
  std::ranges::for_each(schedule_names(), add);
  return text + R"(
Examples:
  weft graph exponential 8
  weft graph ring:style=1 6 --svg ring.svg
  weft graph one_peer:exponential 8
  weft graph exponential 8 --json)";
}

int fail(const Status& status) {
  fmt::print(stderr, "weft graph: {}\n", status.text());
  return status.code() == Code::invalid_argument ? kUsageError : 1;
}

void print(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) fmt::print("{}\n", line);
}

Status show(const Arguments& arguments, const Graph& graph) {
  if (arguments.json) {
    fmt::print("{}", graph_json(graph));
  } else {
    print(describe(graph));
  }
  return arguments.svg.empty() ? Status() : save(arguments.svg, to_svg(graph));
}

Status show(const Arguments& arguments, const Schedule& schedule) {
  if (arguments.json) {
    WEFT_ASSIGN(const std::string text, schedule_json(schedule));
    fmt::print("{}", text);
  } else {
    WEFT_ASSIGN(const std::vector<std::string> lines, describe(schedule));
    print(lines);
  }
  if (arguments.svg.empty()) return {};
  WEFT_ASSIGN(const Graph all, union_graph(schedule));
  return save(arguments.svg, to_svg(all));
}

int run(const Arguments& arguments) {
  const auto made = make_graph_or_schedule(arguments.name, arguments.ranks);
  if (!made.ok()) return fail(made.status());
  const Status shown = std::visit([&](const auto& each) { return show(arguments, each); }, *made);
  return shown.ok() ? 0 : fail(shown);
}

}  // namespace

void add_graph(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("graph", "Show a graph or a schedule: edges, weights, mixing");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("name", arguments->name, "Which one, with its arguments")->required();
  command->add_option("ranks", arguments->ranks, "Number of ranks")->required();
  command->add_flag("--json", arguments->json,
                    "One JSON object on one line: edges, weights with all digits, mixing");
  command->add_option("--svg", arguments->svg,
                      "Also draw it to this file (a schedule: all its steps at once)");
  command->footer(known_names());
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace weft
