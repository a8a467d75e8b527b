// The subcommands of `weft`. Each has a folder of its name and one function that adds it to the
// command line. The function declares the options. If the subcommand was called, it stores what is to
// be done in `action`. Nothing runs before the whole command line has been understood.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tools/weft/common/range.h"

namespace weft {

using Action = std::function<int()>;  // returns the exit status of `weft`

inline constexpr int kUsageError = 2;  // the command line or a variable is wrong

// --json [FILE]: `to` becomes the file, or "-" without one. `what`: what is written there.
inline CLI::Option* add_json_option(CLI::App& command, std::string& to, const std::string& what) {
  const auto take = [&to](const std::vector<std::string>& files) {
    // CLI11 gives "{}" or nothing for a value that was left out.
    to = files.empty() || files.front().empty() || files.front() == "{}" ? "-" : files.front();
    return true;
  };
  return command.add_option("--json", take, what + "; to this file, or instead of the table")
      ->expected(0, 1)
      ->type_name("[FILE]");
}

// The options that `weft perf` and `weft perf wire` have in common, in one wording. `arguments` has
// seconds, against, json.
template <class Arguments>
void add_measuring_options(CLI::App& command, Arguments& arguments, const std::string& peers) {
  command.add_option("--seconds", arguments.seconds, "About so long per size")
      ->check(number_in(0.001, 3600.0));
  command.add_option("--against", arguments.against, "Peer to compare with: " + peers);
  add_json_option(command, arguments.json, "One JSON object per line");
}

void add_run(CLI::App& app, Action& action);
void add_perf(CLI::App& app, Action& action);
void add_predict(CLI::App& app, Action& action);
void add_graph(CLI::App& app, Action& action);
void add_machine(CLI::App& app, Action& action);
void add_map(CLI::App& app, Action& action);
void add_devices(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_flight(CLI::App& app, Action& action);
void add_selftest(CLI::App& app, Action& action);
void add_timeline(CLI::App& app, Action& action);
void add_replay(CLI::App& app, Action& action);
void add_top(CLI::App& app, Action& action);
void add_topo(CLI::App& app, Action& action);
void add_tune(CLI::App& app, Action& action);
void add_config(CLI::App& app, Action& action);

}  // namespace weft
