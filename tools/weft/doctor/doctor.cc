// weft doctor: what is wrong with this host, or with several and the network between them.
#include <fmt/format.h>

#include <memory>

#include "tools/weft/commands.h"
#include "tools/weft/common/save.h"
#include "tools/weft/doctor/report.h"

namespace weft {
namespace {

constexpr const char* kExamples = R"(
Nothing is changed. Each finding says what is wrong, how that was seen, what it costs where the
simulator of `weft predict` can tell, and the command that mends it. As root more can be read.
Counters of errors are read twice, a second apart; --since compares with an earlier look instead.

The exit status is 0 if there is nothing to mend (hints do not count), 1 if there are warnings or a host could
not be looked at, 2 if something is severe (or the command line is wrong).

Examples:
  weft doctor
  weft doctor --facts > before.json                 and after a day:
  weft doctor --since before.json
  weft run -n 2 --no-tag -- weft doctor             a job, started by any launcher: rank 0 reports
  mpirun -n 16 weft doctor --json report.json
  weft doctor --hosts node0,node1,node2             by ssh
  weft doctor --hostfile hosts --ssh "ssh -p 2222" --remote-weft /opt/weft/bin/weft
  weft doctor node0.json node1.json                 facts that were written before
  weft doctor --root /host                          in a container that has the host's root there)";

struct Arguments {
  std::vector<std::string> files;
  HostArguments remote;
  std::vector<std::string> since;
  std::string root = "/";
  bool facts = false;
  std::string json;
};

int fail(const Status& status) {
  fmt::print(stderr, "weft doctor: {}\n", status.text());
  return status.code() == Code::invalid_argument ? kUsageError : 1;
}

int tell(Collected found, const Arguments& asked) {
  Collected earlier = collect_files(asked.since);
  for (Missing& missing : earlier.missing) {
    missing.who = "--since " + missing.who;
    found.missing.push_back(std::move(missing));
  }
  settle(found, earlier.hosts);
  const DoctorReport report = report_on(std::move(found));
  if (asked.json != "-") fmt::print("{}", doctor_text(report));
  if (asked.json == "-") fmt::print("{}", doctor_json(report));
  if (!asked.json.empty() && asked.json != "-") {
    if (const Status saved = save(asked.json, doctor_json(report)); !saved.ok()) return fail(saved);
  }
  return exit_status(report);
}

int run(const Arguments& asked) {
  const Result<Config> config = Config::from_environment(UnknownNames::refuse);
  if (!config.ok()) return fail(config.status());
  if (const Status status = check_writable(asked.json == "-" ? "" : asked.json); !status.ok())
    return fail(status);
  FactSources from;
  from.root = asked.root;
  if (asked.facts) {
    fmt::print("{}", facts_to_json(facts_here(*config, from)));
    return 0;
  }
  if (!asked.files.empty()) return tell(collect_files(asked.files), asked);
  if (asked.remote.any()) {
    const Result<std::vector<std::string>> hosts = hosts_of(asked.remote);
    if (!hosts.ok()) return fail(hosts.status());
    return tell(collect_remote(*hosts, asked.remote), asked);
  }
  if (config->size == 1 || asked.root != "/") {
    Collected here;
    here.hosts.push_back(facts_here(*config, from));
    return tell(std::move(here), asked);
  }
  Result<JobFacts> job = collect_job(*config);
  if (!job.ok()) return fail(job.status());
  return job->leads ? tell(std::move(job->found), asked) : 0;
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "doctor",
      "Say what is wrong with hosts and their network, what it costs, and how to mend it");
  const auto arguments = std::make_shared<Arguments>();
  Arguments& to = *arguments;
  CLI::Option* files =
      command->add_option("facts", to.files, "Files that --facts wrote, instead of this host")
          ->option_text("[FILE…]");
  const HostOptions hosts = add_host_options(*command, to.remote);
  hosts.hosts->excludes(files);
  hosts.hostfile->excludes(files);
  command
      ->add_option("--since", to.since, "Facts of an earlier look: errors are counted from there")
      ->option_text("FILE…");
  command->add_option("--root", to.root, "Where the host's root is")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  command
      ->add_flag("--facts", to.facts, "Write what is known of this host as JSON, and judge nothing")
      ->excludes(files)
      ->excludes(hosts.hosts)
      ->excludes(hosts.hostfile);
  add_json_option(*command, to.json, "Findings as one JSON object");
  command->footer(kExamples);
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace weft
