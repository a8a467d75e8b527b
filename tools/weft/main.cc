// weft: the command. Reads the command line and calls the subcommand.
#include <signal.h>
#include <weft/version.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>

#include "tools/weft/commands.h"
#include "tools/weft/common/mistake.h"
#include "tools/weft/common/save.h"
#include "tools/weft/report/report.h"

int main(int argc, char** argv) {
  // Files that contradict themselves are errors of ours; hwloc would print a banner besides.
  ::setenv("HWLOC_HIDE_ERRORS", "2", 0);
  CLI::App app{"Weft: an RDMA-first transport engine. What do you want to do?", "weft"};
  app.set_version_flag("--version", "weft " + std::string(weft::version()));
  app.require_subcommand(1);
  app.failure_message(weft::mistake_text);
  weft::Action action;

  weft::add_run(app, action);
  weft::add_perf(app, action);
  weft::add_predict(app, action);
  weft::add_graph(app, action);
  weft::add_machine(app, action);
  weft::add_devices(app, action);
  weft::add_doctor(app, action);
  weft::add_topo(app, action);
  weft::add_top(app, action);
  weft::add_map(app, action);
  weft::add_selftest(app, action);
  weft::add_flight(app, action);
  weft::add_timeline(app, action);
  weft::add_replay(app, action);
  weft::add_report(app, action);
  weft::add_tune(app, action);
  weft::add_config(app, action);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // or a question for help
    action = [&app, error] { return app.exit(error) == 0 ? 0 : weft::kUsageError; };
  }
  // Who closes the pipe has read enough: that ends the command without a word, also where the
  // signal was ignored before. A file that may not grow is an error of the write.
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_IGN);
  try {
    const int status = action();
    const weft::Status written = weft::print_now("");
    if (written.ok() || status != 0) return status;
    std::fprintf(stderr, "weft: %s\n", std::string(written.text()).c_str());
  } catch (const std::system_error& error) {  // of fmt, where standard output is full
    std::fprintf(stderr, "weft: standard output: %s\n", error.what());
  }
  return 1;
}
