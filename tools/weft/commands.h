// The subcommands of `weft`. Each lives in the source file of its name and adds itself to the
// command line with one function: it declares its options and, when it is the one that was called,
// leaves what is to be done in `action`. Nothing runs before the whole command line has been
// understood.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace weft {

using Action = std::function<int()>;  // returns the exit status of `weft`

inline constexpr int kUsageError = 2;  // the command line or a variable is wrong

// The options that `weft perf` and `weft perf wire` have in common, in one wording. `arguments` has
// seconds, against, json.
template <class Arguments>
void add_measuring_options(CLI::App& command, Arguments& arguments, const std::string& peers) {
  command.add_option("--seconds", arguments.seconds, "About so long per size")
      ->check(CLI::Range(0.001, 3600.0));
  command.add_option("--against", arguments.against, "Peer to compare with: " + peers);
  command.add_option("--json", arguments.json,
                     "File for one JSON object per line; - instead of the table");
}

void add_run(CLI::App& app, Action& action);
void add_perf(CLI::App& app, Action& action);
void add_predict(CLI::App& app, Action& action);
void add_graph(CLI::App& app, Action& action);
void add_machine(CLI::App& app, Action& action);
void add_map(CLI::App& app, Action& action);
void add_devices(CLI::App& app, Action& action);
void add_selftest(CLI::App& app, Action& action);
void add_topo(CLI::App& app, Action& action);
void add_config(CLI::App& app, Action& action);

}  // namespace weft
