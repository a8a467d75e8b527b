// weft run: starts the ranks of a job on this machine.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "tools/weft/commands.h"
#include "tools/weft/common/job.h"

namespace weft {
namespace {

constexpr int kMaxRanks = 1024;   // on one machine; each has two pipes and a process here
constexpr int kNotStarted = 127;  // as the shell has it for a program that is not found

constexpr const char* kExamples = R"(
Each rank finds WEFT_RANK, WEFT_SIZE and the rendezvous in its environment, which is all that
weft::open_store() and the bindings need. With --pmix, programs that know PMIx (MPI) find a server for it
too. Standard input is empty; output lines begin with [rank].

When a rank fails, `weft run` says which and how, gives the others a grace to report their own errors,
then ends them with SIGTERM and, a grace later, with SIGKILL. The exit status is the first failing
rank's (128 + signal when a signal ended it), 130 after Ctrl-C, 124 after --deadline. With --keep-going
the others go on, and the exit status is 0 if one of them ends well. With --restart N so too, and the
rank is started again: its program calls Context::admit() between two steps, as the others do. No process
remains, whatever the ranks have started.

Examples:
  weft run -n 4 -- ./train --epochs 3       four ranks, each on its own core if there are four
  weft run -n 4 --bind-to none -- python train.py
  weft run -n 2 --deadline 60 --grace 0.5 -- ./test
  weft run -n 2 --no-tag -- hostname
  weft run -n 4 --pmix -- ./mpi-program)";

struct Arguments {
  JobOptions job;
  double deadline_s = 0;
  double grace_s = 2;
};

std::int64_t to_ms(double seconds) {
  return static_cast<std::int64_t>(seconds * 1000);
}

Binding binding_of(const std::string& word) {
  if (word == "auto") return Binding::automatic;
  if (word == "core") return Binding::core;
  if (word == "none") return Binding::none;
  throw CLI::ValidationError("--bind-to", word + ": there are auto, core, none");
}

int fail(const Status& status) {
  fmt::print(stderr, "weft run: {}\n", status.text());
  if (status.code() == Code::invalid_argument) return kUsageError;
  return status.code() == Code::unavailable ? kNotStarted : kNotStarted - 1;
}

int run(const Arguments& arguments) {
  JobOptions options = arguments.job;
  options.deadline_ms = to_ms(arguments.deadline_s);
  options.grace_ms = to_ms(arguments.grace_s);
  Job job(options);
  if (const Status status = job.start(); !status.ok()) return fail(status);
  return job.run();
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("run", "Start the ranks of a job on this machine");
  const auto arguments = std::make_shared<Arguments>();
  JobOptions& job = arguments->job;
  command->add_option("-n,--ranks", job.ranks, "Number of ranks")
      ->required()
      ->check(CLI::Range(1, kMaxRanks))
      ->option_text("N");
  command
      ->add_option_function<std::string>(
          "--bind-to", [&job](const std::string& word) { job.binding = binding_of(word); },
          "core: rank r on core r; auto: that if there is a core for each; none")
      ->option_text("auto|core|none");
  command->add_flag("--keep-going", job.keeps_going,
                    "If a rank fails, let the others go on; so too where WEFT_ON_DEATH is skip");
  command
      ->add_option("--restart", job.restarts,
                   "Start each rank that fails again, up to N times (sets WEFT_ON_DEATH=skip)")
      ->check(CLI::Range(1, 1'000'000))
      ->option_text("N");
  command->add_flag("--pmix", job.pmix, "Be a PMIx server to the ranks, for MPI programs");
  command
      ->add_option("--deadline", arguments->deadline_s,
                   "Stop the job after S seconds (default: never)")
      ->check(number_in(0.001, 1e7))
      ->option_text("S");
  command
      ->add_option("--grace", arguments->grace_s,
                   "Seconds from a failure to SIGTERM, and from there to SIGKILL (default: 2)")
      ->check(number_in(0.0, 3600.0))
      ->option_text("S");
  command->add_flag("--tag-output,!--no-tag", job.tag,
                    "Begin each output line with [rank] (default)");
  command->add_option("program", job.command, "Program and its arguments, after --")
      ->required()
      ->option_text("PROGRAM [ARGUMENTS]");
  command->positionals_at_end();
  command->footer(kExamples);
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace weft
