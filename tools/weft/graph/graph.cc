// weft graph: what a graph, a schedule or a law of groups is, in words, as JSON and as a drawing.
#include <fmt/format.h>
#include <weft/graph.h>

#include <algorithm>
#include <utility>

#include "scheduler/partial/partial.h"
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
  std::string groups;
  int machines = 1;
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
Laws of groups (--groups LAW), for partial all-reduce:
  random:SIZE            SIZE=3                   each rank asks for a group with random others
  pairs                                           random:2, the groups of AD-PSGD
  smart:SIZE             SIZE=3                   all idle ranks at once, across machines and then inside
  static                                          by iteration and rank, without a generator

Examples:
  weft graph exponential 8
  weft graph ring:style=1 6 --svg ring.svg
  weft graph one_peer:exponential 8
  weft graph exponential 8 --json
  weft graph --groups smart -n 16 --machines 4)";
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

std::vector<std::string> describe(const GroupMixing& mixing, int machines) {
  return {
      fmt::format("{}: {} ranks on {} machine{}", mixing.mean.name(), mixing.mean.size(), machines,
                  machines == 1 ? "" : "s"),
      fmt::format("rho {:.6f}, spectral gap {:.6f}: {}", mixing.rho, 1 - mixing.rho,
                  mixing.is_exact
                      ? fmt::format("exact, over a period of {} rounds", mixing.rounds)
                      : fmt::format("of {} sampled rounds, ranks equally fast", mixing.rounds)),
      fmt::format("a round: {:.1f} groups of {:.1f} ranks on average", mixing.groups,
                  mixing.members),
      fmt::format("strongly connected: {}", is_strongly_connected(mixing.mean) ? "yes" : "no"),
  };
}

Status show_groups(const Arguments& arguments) {
  WEFT_ASSIGN(const GroupLaw law, group_law(arguments.groups));
  const auto [ranks, machines] = std::pair(arguments.ranks, arguments.machines);
  if (machines < 1 || ranks % machines != 0) {
    return Status(
        Code::invalid_argument,
        fmt::format("{} ranks on {} machines: each machine needs as many", ranks, machines));
  }
  WEFT_ASSIGN(const GroupMixing mixing, group_mixing(law, {machines, ranks / machines}));
  if (arguments.json) {
    fmt::print("{}", groups_json(mixing, machines));
  } else {
    print(describe(mixing, machines));
  }
  return arguments.svg.empty() ? Status() : save(arguments.svg, to_svg(mixing.mean));
}

int run(const Arguments& arguments) {
  if (!arguments.groups.empty()) {
    const Status shown = show_groups(arguments);
    return shown.ok() ? 0 : fail(shown);
  }
  if (arguments.name.empty()) {
    return fail(Status(Code::invalid_argument,
                       "the name of a graph or of a schedule is missing, or --groups LAW"));
  }
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
  CLI::Option* name = command->add_option("name", arguments->name, "Which one, with its arguments");
  command->add_option("ranks,-n,--ranks", arguments->ranks, "Number of ranks")->required();
  CLI::Option* groups =
      command->add_option("--groups", arguments->groups, "Show this law of groups instead: rho")
          ->excludes(name);
  command->add_option("--machines", arguments->machines, "Machines that the ranks are on [1]")
      ->needs(groups);
  command->add_flag("--json", arguments->json,
                    "One JSON object on one line: edges, weights with all digits, mixing");
  command->add_option("--svg", arguments->svg,
                      "Also draw it to this file (a schedule: all its steps at once)");
  command->footer(known_names());
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace weft
