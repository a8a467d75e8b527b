// Edit distance, and the words that CLI11 did not take.
#include "tools/weft/common/mistake.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

namespace weft {
namespace {

// Letters left out, added, replaced, or swapped with their neighbors.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> least(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        least[i][j] = i + j;
        continue;
      }
      least[i][j] = std::min({least[i - 1][j] + 1, least[i][j - 1] + 1,
                              least[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) least[i][j] = std::min(least[i][j], least[i - 2][j - 2] + 1);
    }
  }
  return least[a.size()][b.size()];
}

// The subcommand that was reached.
const CLI::App& reached(const CLI::App& app) {
  const std::vector<CLI::App*> called = app.get_subcommands();
  return called.empty() ? app : reached(*called.front());
}

std::string full_name(const CLI::App& app) {
  const CLI::App* const parent = app.get_parent();
  return parent == nullptr ? app.get_name() : full_name(*parent) + ' ' + app.get_name();
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

// What CLI11 says, or more where it did not know a word.
std::string problem(const CLI::App& command, const CLI::Error& error) {
  const std::vector<std::string> unknown = command.remaining();
  if (unknown.empty()) return error.what();
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  const bool is_option = word.starts_with('-');
  // A missing subcommand is found before a word too many; other missing things have their own text.
  const auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());
  const bool is_about_it =
      code == CLI::ExitCodes::ExtrasError || (code == CLI::ExitCodes::RequiredError && !is_option);
  if (!is_about_it) return error.what();
  const std::vector<std::string> names = is_option ? options_of(command) : commands_of(command);
  if (!is_option && names.empty()) return error.what();
  const std::string near = nearest(word, names);
  return fmt::format("{} '{}' is unknown{}", is_option ? "option" : "command", word,
                     near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  constexpr std::size_t kLettersForOneMistake = 3;
  std::size_t least = std::max<std::size_t>(1, word.size() / kLettersForOneMistake) + 1;
  std::string found;
  for (const std::string& name : names) {
    const std::size_t away = distance(word, name);
    if (away >= least) continue;
    least = away;
    found = name;
  }
  return found;
}

std::string mistake_text(const CLI::App* app, const CLI::Error& error) {
  const CLI::App& command = reached(*app);
  const std::string name = full_name(command);
  return fmt::format("{0}: {1}\n`{0} --help` says more.\n", name, problem(command, error));
}

}  // namespace weft
