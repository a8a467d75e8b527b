// hosts: asking a command on several hosts at once, by ssh or any program that runs a command on a host. The
// options of `weft doctor`, `weft flight` and `weft top`, in one wording.
//
//   add_host_options(*command, to.hosts);
//   WEFT_ASSIGN(const std::vector<std::string> names, hosts_of(to.hosts));
//   for (HostAnswer& answer : ask_hosts(names, to.hosts, {"doctor", "--facts"}, progress)) …
#pragma once

#include <string>
#include <vector>

#include "tools/weft/common/progress.h"
#include "verbs/base/base.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace weft {

// As typed on the command line.
struct HostArguments {
  std::string hosts, hostfile;
  std::string ssh = "ssh -o BatchMode=yes -o ConnectTimeout=5";
  std::string weft = "weft";
  double timeout_s = 20;  // for each 64 hosts, which are asked at once

  [[nodiscard]] bool any() const { return !hosts.empty() || !hostfile.empty(); }
};

struct HostOptions {
  CLI::Option* hosts = nullptr;
  CLI::Option* hostfile = nullptr;
};
// --hosts, --hostfile, --ssh, --remote-weft, --timeout.
HostOptions add_host_options(CLI::App& command, HostArguments& to);

// The hosts that were named. Errors name the option.
[[nodiscard]] Result<std::vector<std::string>> hosts_of(const HostArguments& asked);

struct HostAnswer {
  std::string host;
  double asked_s = 0, answered_s = 0;  // by this host's clock
  // What the command printed; or why there is no answer, in its own words where it said any.
  Result<std::string> text = Status(Code::unavailable, "was not asked");
};
// Runs `weft WORDS` on each, and ends what has not answered in time. In the order of the hosts. A command that
// prints something and ends with status 1 has answered, too. Called by the main thread.
[[nodiscard]] std::vector<HostAnswer> ask_hosts(const std::vector<std::string>& hosts,
                                                const HostArguments& by,
                                                const std::vector<std::string>& words,
                                                Progress& progress);

}  // namespace weft
