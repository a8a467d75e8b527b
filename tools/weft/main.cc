// weft: the command. Reads the command line and calls the subcommand.
#include <weft/version.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>

#include "tools/weft/commands.h"

int main(int argc, char** argv) {
  // Files that contradict themselves are errors of ours; hwloc would print a banner besides.
  ::setenv("HWLOC_HIDE_ERRORS", "2", 0);
  CLI::App app{"Weft: an RDMA-first transport engine. What do you want to do?", "weft"};
  app.set_version_flag("--version", "weft " + std::string(weft::version()));
  app.require_subcommand(1);
  weft::Action action;

  weft::add_run(app, action);
  weft::add_perf(app, action);
  weft::add_predict(app, action);
  weft::add_graph(app, action);
  weft::add_machine(app, action);
  weft::add_devices(app, action);
  weft::add_topo(app, action);
  weft::add_map(app, action);
  weft::add_selftest(app, action);
  weft::add_timeline(app, action);
  weft::add_config(app, action);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : weft::kUsageError;
  }
  // Standard output may be full or closed; fmt throws then.
  try {
    const int status = action();
    if (std::fflush(stdout) == 0) return status;
    std::perror("weft: standard output");
  } catch (const std::system_error& error) {
    std::fprintf(stderr, "weft: standard output: %s\n", error.what());
  }
  return 1;
}
