// The subcommands of `weft`. Each lives in the source file of its name and adds itself to the
// command line with one function: it declares its options and, when it is the one that was called,
// leaves what is to be done in `action`. Nothing runs before the whole command line has been
// understood.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace weft {

using Action = std::function<int()>;  // returns the exit status of `weft`

inline constexpr int kUsageError = 2;  // the command line or a variable is wrong

void add_run(CLI::App& app, Action& action);
void add_perf(CLI::App& app, Action& action);
void add_graph(CLI::App& app, Action& action);
void add_machine(CLI::App& app, Action& action);
void add_devices(CLI::App& app, Action& action);
void add_config(CLI::App& app, Action& action);

}  // namespace weft
