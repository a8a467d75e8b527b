// weft selftest: the conformance suite and harmless faults, on a user's own devices.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "tools/weft/commands.h"
#include "tools/weft/common/rdma_ports.h"
#include "tools/weft/selftest/report.h"
#include "tools/weft/wire/side.h"

namespace weft {
namespace {

constexpr const char* kExamples = R"(
Each check is one test of the conformance suite that Weft's own transports are held to: order,
credits, memory, sleeping, closing, between threads and between processes; and faults that do no
harm: a path given up in the middle of a stream, a peer killed, a peer stopped for a while, an
interface closed under load. Every byte is compared. A check is a process of its own; one that takes
longer than --seconds is ended and has failed. Nothing of the devices is changed, and a job that
runs on them meanwhile is only slowed.

Even ranks use --device, odd ones --peer-device: between two ports of this machine the wire is
tested, too, where the kernel does not take a short cut. Without them each usable device is tested
against itself.

The exit status is 0 if something was checked and nothing failed, 1 otherwise; 2: wrong arguments.

Examples:
  weft selftest
  weft selftest --transport ib --device mlx5_0 --peer-device mlx5_1
  weft selftest --transport ucx --device eth0 --filter Faults
  weft selftest --transport shm --json
  weft selftest --list)";

int fail(const Status& status) {
  fmt::print(stderr, "weft selftest: {}\n", status.to_string());
  return status.code() == Code::invalid_argument ? kUsageError : 1;
}

// The checks whose names contain one of the filters.
Result<std::vector<std::string>> wanted_checks(const std::vector<std::string>& filters) {
  WEFT_ASSIGN(std::vector<std::string> checks, selftest_checks());
  if (filters.empty()) return checks;
  std::erase_if(checks, [&](const std::string& check) {
    return std::ranges::none_of(filters, [&check](const std::string& filter) {
      return check.find(filter) != std::string::npos;
    });
  });
  if (!checks.empty()) return checks;
  return Status(Code::invalid_argument, fmt::format("--filter {}: no check is called so (--list)",
                                                    fmt::join(filters, ",")));
}

int run(const SelftestArguments& asked) {
  const auto targets = selftest_targets(asked, rdma_ports(), discover_interfaces());
  if (!targets.ok()) return fail(targets.status());
  const auto checks = wanted_checks(asked.filter);
  if (!checks.ok()) return fail(checks.status());
  if (asked.list) {
    for (const std::string& check : *checks) fmt::print("{}\n", check);
    return 0;
  }
  SelftestReport report(asked.json);
  for (const SelftestTarget& target : *targets) {
    report.target(target);
    if (!target.left_out.empty()) continue;
    for (const std::string& check : *checks)
      report.result(target, run_check(check, target, asked.seconds));
  }
  report.summary();
  return report.good() ? 0 : 1;
}

}  // namespace

void add_selftest(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "selftest", "Check that the transports keep their contract on this machine's devices");
  const auto arguments = std::make_shared<SelftestArguments>();
  SelftestArguments& to = *arguments;
  command->add_option("--transport", to.transport, "shm, ib or ucx [all that can be used]");
  command->add_option("--device", to.device, "mlx5_0 or mlx5_0:2; ucx: eth0 [each, one by one]");
  command->add_option("--peer-device", to.peer_device, "Of the other end of each wire [the same]");
  command
      ->add_option("--filter", to.filter,
                   "Only checks whose names contain one of these: Faults,Path")
      ->delimiter(',');
  command->add_option("--seconds", to.seconds, "Bound of one check [120]")
      ->check(number_in(0.001, 3600.0));
  command->add_flag("--list", to.list, "Print the names of the checks and run none");
  command->add_flag("--json", to.json, "JSON objects, one a line, instead of text");
  command->footer(kExamples);
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace weft
