// The command: its options, and who starts the two sides.
#include "tools/weft/wire/wire.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "engine/bootstrap/bootstrap.h"
#include "tools/weft/wire/meet.h"
#include "tools/weft/wire/perftest.h"
#include "tools/weft/wire/rounds.h"

namespace weft {
namespace {

constexpr std::int64_t kGoodbyeMs = 10'000;

constexpr const char* kExamples = R"(
Operations: write, read and atomic (compare-and-swap) go to the other side's memory without its
time; notice is what the engine sends: the receiver sees it and releases it. With --depth 1 a time
is that of one operation alone: write and notice are answered alike and half of the round trip
counts, as ib_write_lat and ib_send_lat have it. MB are 2^20 bytes, as perftest has them. peak: the
best run of --depth operations. line: the average by the rate that the port reports; Soft-RoCE
reports a constant, whatever it can do. CPU: of both processes. Over --transport ucx the other
side's processor does one-sided work.

--against perftest runs ib_write_bw, ib_read_lat, … on the same ports with the same size, depth,
list, packets and retry timer, in turn with ours, --rounds times; ratio is the median of ours /
theirs, of averages, or of median times with --depth 1, and half of the rounds lie between the last
two.

Examples:
  weft perf wire --op write --sizes 64K,1M --device mlx5_0 --peer-device mlx5_1 --against perftest
  weft perf wire --op write --depth 1 --sizes 8             latency
  weft perf wire --op notice --transport ucx --device eth0
  weft perf wire --listen 18600 --device mlx5_0             on one machine, and on another:
  weft perf wire --peer host1:18600 --op read --device mlx5_0
  weft perf wire --listen 10.0.0.1:18600                    only at this address of the machine

Both commands need the same WEFT_JOB_KEY. Without one, --listen makes a key and shows it. They look for each
other for WEFT_DEADLINE_MS. The listening side serves the first caller that proves to know the key.)";

int fail(const Status& status) {
  fmt::print(stderr, "weft perf wire: {}\n", status.to_string());
  return status.code() == Code::invalid_argument ? kUsageError : 1;
}

// The other side learns why this one ends, unless it was the other one that said so.
Status told(Line& line, Status status) {
  if (!status.ok()) line.fail(status);
  return status;
}

// Rank 1, a child of rank 0, which alone speaks to people.
[[noreturn]] void be_child(pid_t parent, const WireDevice& device, Line& line,
                           const Config& config) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::_exit(told(line, follow_wire(device, line, config)).ok() ? 0 : 1);
}

// Ends by itself once rank 0 has said so, or once the line is gone.
void end_child(pid_t child) {
  for (const Deadline patience = Deadline::after_ms(kGoodbyeMs); !patience.passed();) {
    if (::waitpid(child, nullptr, WNOHANG) == child) return;
    ::usleep(1000);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

Status run_both(const WireOptions& options, const Config& config) {
  WEFT_ASSIGN(auto ends, Line::make_pair());
  auto lead = std::make_unique<Line>(std::move(ends.first));
  auto follow = std::make_unique<Line>(std::move(ends.second));
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return system_error("fork", errno);
  if (child == 0) {
    lead.reset();
    be_child(parent, options.peer_device, *follow, config);
  }
  follow.reset();
  const Status status = told(*lead, lead_wire(options, *lead, "127.0.0.1", config));
  lead.reset();
  end_child(child);
  return status;
}

void say(const std::string& line) {
  fmt::print(stderr, "weft perf wire: {}\n", line);
}

// The side that follows the one that calls.
Status listen(const WireOptions& options, const Config& config) {
  std::string key = config.job_key;
  if (key.empty()) {
    WEFT_ASSIGN(key, make_job_key());
    say("on the other machine: export WEFT_JOB_KEY=" + key);
  }
  const Deadline deadline = Deadline::after_ms(config.deadline_ms);
  WEFT_ASSIGN(Fd caller, await_caller(*options.listen, key, deadline, say));
  Line line(std::move(caller));
  return told(line, follow_wire(options.device, line, config));
}

Status call(const WireOptions& options, const Config& config) {
  if (config.job_key.empty()) {
    return Status(Code::invalid_argument,
                  "--peer: WEFT_JOB_KEY is not set; the side that listens shows it");
  }
  say("connecting to " + options.peer->to_string());
  const Deadline deadline = Deadline::after_ms(config.deadline_ms);
  WEFT_ASSIGN(Fd listener, call_listener(*options.peer, config.job_key, deadline, say));
  Line line(std::move(listener));
  return told(line, lead_wire(options, line, options.peer->host, config));
}

Status run_here(const WireOptions& options, const Config& config) {
  if (options.listen) return listen(options, config);
  if (options.against_perftest) {
    WireTask task;
    task.op = options.op;
    task.depth = options.depth;
    WEFT_RETURN_IF_ERROR(perftest_is_here(task));
  }
  return options.peer ? call(options, config) : run_both(options, config);
}

int run(WireArguments arguments) {
  const Result<Config> config = Config::from_environment(UnknownNames::refuse);
  if (!config.ok()) return fail(config.status());
  for (const std::string& line : fit_settings(arguments, *config)) say(line);
  const Result<WireOptions> options = understand(arguments);
  if (!options.ok()) return fail(options.status());
  const Status status = run_here(*options, *config);
  return status.ok() ? 0 : fail(status);
}

}  // namespace

void add_wire(CLI::App& perf, Action& action) {
  CLI::App* command =
      perf.add_subcommand("wire", "Measure one path between two processes, next to perftest");
  const auto arguments = std::make_shared<WireArguments>();
  WireArguments& to = *arguments;
  command->add_option("--op", to.op, "write, read, notice (or send), atomic");
  command->add_option("--sizes", to.sizes, "Bytes of an operation: 8,64K,1M");
  command->add_option("--depth", to.depth, "Operations under way; 1: latency [128; atomic: 1]");
  command->add_option("--list", to.list, "Operations posted before a doorbell");
  command->add_option("--rounds", to.rounds,
                      "Into which --seconds are cut; each has its own ratio");
  command->add_option("--transport", to.transport, "ib or ucx [WEFT_TRANSPORTS, else ib]");
  command->add_option("--device", to.device,
                      "Of this side: rx_h0r0 or mlx5_0:2; ucx: eth0 "
                      "[the first of WEFT_INTERFACES]");
  command->add_option("--peer-device", to.peer_device, "Of the other side, on this machine");
  command->add_option("--listen", to.listen,
                      "PORT or ADDRESS:PORT: be the other side for a command "
                      "with --peer");
  command->add_option("--peer", to.peer, "HOST:PORT where the other side listens");
  add_measuring_options(*command, to, "perftest");
  command->footer(kExamples);
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace weft
