// weft config: the variables, their values here and now, and what they mean.
#include "engine/config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "tools/weft/commands.h"

namespace weft {
namespace {

std::string shown(const Variable& variable, const Config& config) {
  const std::string value = variable.show(config);
  if (value.empty()) return "(empty)";
  return variable.secret ? "(set)" : value;
}

std::string_view source_of(const Variable& variable, const Config& config,
                           const std::vector<std::string>& entries) {
  if (is_set(entries, variable.name)) return "environment";
  const bool is_of_profile =
      !config.profile_topology.empty() &&
      std::ranges::find(tuned_variables(), variable.name) != tuned_variables().end() &&
      variable.show(config) != variable.show(Config{});
  return is_of_profile ? "profile" : "default";
}

void print_table(const Config& config, const std::vector<std::string>& entries) {
  for (const Variable& variable : variables()) {
    fmt::print("{:<24}{:<14}{:<13}{}\n", variable.name, shown(variable, config),
               source_of(variable, config, entries), variable.meaning);
  }
  fmt::print("launcher                {}\n", config.launch());
}

void print_markdown() {
  fmt::print("| variable | default | accepted | meaning |\n|---|---|---|---|\n");
  for (const Variable& variable : variables()) {
    fmt::print("| `{}` | {} | {} | {} |\n", variable.name, shown(variable, Config{}),
               variable.accepted, variable.meaning);
  }
}

int show_config(bool markdown) {
  if (markdown) {
    print_markdown();
    return 0;
  }
  const std::vector<std::string> entries = environment();
  const Result<Config> config = Config::from_entries(entries, UnknownNames::refuse);
  if (!config.ok()) {
    fmt::print(stderr, "weft config: {}\n", config.status().text());
    return kUsageError;
  }
  print_table(*config, entries);
  return 0;
}

}  // namespace

void add_config(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("config", "Show every WEFT_ variable: value, source, meaning");
  const auto markdown = std::make_shared<bool>(false);
  command->add_flag("--markdown", *markdown,
                    "The table of the documentation: defaults and what is accepted");
  command->footer("\nExamples:\n  weft config\n  weft config --markdown");
  command->callback(
      [&action, markdown] { action = [markdown] { return show_config(*markdown); }; });
}

}  // namespace weft
