// weft flight: what the flight recorders of the ranks say together.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "tools/weft/commands.h"
#include "tools/weft/common/save.h"
#include "tools/weft/flight/gather.h"
#include "tools/weft/flight/judge.h"

namespace weft {
namespace {

constexpr const char* kExamples = R"(
Each rank keeps its last thousand operations. With WEFT_FLIGHT=/tmp/flight-{rank}.json a rank whose context
fails writes them to a file; weft::flight(), weft_flight() and weft.flight() return them at any time; with
WEFT_LIVE=auto a running rank gives them to --live. The files of all ranks together say who did not call
what. A file that is cut short counts as far as it goes; what cannot be read is a line.

The exit status is 0 if nobody waits and nothing has failed, 1 if somebody does, 2 if the command line is wrong.

Examples:
  WEFT_FLIGHT=/tmp/flight-{rank}.json weft run -n 4 -- ./train
  weft flight /tmp/flight-*.json*
  weft flight --live                    the ranks that run here with WEFT_LIVE=auto
  weft flight --live /run/weft --json
  weft flight --hosts node0,node1       the ranks on these hosts, by ssh
  weft flight --live --metrics          Prometheus text of all ranks)";

struct Arguments {
  std::vector<std::string> files;
  std::string live;
  HostArguments hosts;
  int calls = 1024;
  int list = 0;
  bool raw = false, metrics = false;
  std::string json;
};

int fail(const Status& status) {
  fmt::print(stderr, "weft flight: {}\n", status.text());
  return status.code() == Code::invalid_argument ? kUsageError : 1;
}

nlohmann::json to_json(const dumps::Verdict& verdict) {
  static constexpr const char* kKinds[] = {"absent", "mismatch", "waits",
                                           "names",  "failure",  "busy"};
  return {{"kind", kKinds[static_cast<std::size_t>(verdict.kind)]},
          {"culprits", verdict.culprits},
          {"waiting", verdict.waiting},
          {"context", verdict.context},
          {"seconds", verdict.seconds},
          {"text", verdict.text}};
}

// The latest calls of a rank, newest last.
std::string list_of(const dumps::Part& part, int most) {
  std::string text = fmt::format("rank {}, context {}:\n", part.rank_in_job, part.context);
  const std::size_t count = std::min(part.ops.size(), static_cast<std::size_t>(most));
  for (auto op = part.ops.end() - static_cast<std::ptrdiff_t>(count); op != part.ops.end(); ++op) {
    constexpr double kS = 1e9;
    const auto ago = [&part](std::int64_t ns) {
      return fmt::format("{:.6f} s ago", static_cast<double>(part.clock_ns - ns) / kS);
    };
    text += fmt::format("  {:8} {}", op->state, dumps::op_text(*op));
    if (op->began_ns != 0) text += fmt::format(", begun {}", ago(op->began_ns));
    if (op->ended_ns != 0) text += fmt::format(", ended {}", ago(op->ended_ns));
    text += '\n';
  }
  return text;
}

Status tell(const dumps::Gathered& found, const std::vector<dumps::Verdict>& verdicts,
            const Arguments& asked) {
  WEFT_ASSIGN(Rows rows, Rows::open(asked.json));
  nlohmann::json all = {{"remarks", found.remarks}, {"verdicts", nlohmann::json::array()}};
  for (const dumps::Verdict& each : verdicts) {
    all["verdicts"].push_back(to_json(each));
    WEFT_RETURN_IF_ERROR(rows.text(each.text + "\n"));
  }
  if (verdicts.empty())
    WEFT_RETURN_IF_ERROR(rows.text(found.parts.empty() ? "no rank has told anything\n"
                                                       : "nobody waits, and nothing has failed\n"));
  if (asked.list > 0) {
    for (const dumps::Part& part : found.parts)
      WEFT_RETURN_IF_ERROR(rows.text(list_of(part, asked.list)));
  }
  WEFT_RETURN_IF_ERROR(
      rows.json(all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  return rows.close();
}

void tell_remarks(const std::vector<std::string>& remarks) {
  for (const std::string& remark : remarks) fmt::print(stderr, "weft flight: {}\n", remark);
}

int tell_metrics(const dumps::Running& from) {
  const Result<dumps::Words> words = dumps::gather_metrics(from);
  if (!words.ok()) return fail(words.status());
  tell_remarks(words->remarks);
  const Status status =
      print_now(words->text.empty() ? "# no rank is there (WEFT_LIVE)\n" : words->text);
  return status.ok() ? 0 : fail(status);
}

int tell_raw(const dumps::Running& from, std::size_t calls) {
  const Result<std::string> text = dumps::raw_dumps(from, calls);
  if (!text.ok()) return fail(text.status());
  const Status status = print_now(*text);
  return status.ok() ? 0 : fail(status);
}

int run(const Arguments& asked) {
  const bool asks = !asked.live.empty() || asked.hosts.any();
  if (asked.files.empty() != asks)
    return fail(
        Status(Code::invalid_argument, "name files, or ask running ranks by --live or --hosts"));
  const dumps::Running from{asked.live.empty() ? "auto" : asked.live, asked.hosts};
  const auto calls = static_cast<std::size_t>(asked.calls);
  if (asked.metrics) return tell_metrics(from);
  if (asked.raw) return tell_raw(from, calls);
  dumps::Gathered found;
  if (!asks) {
    found = dumps::gather_files(asked.files);
  } else {
    Result<dumps::Gathered> live = dumps::gather_running(from, calls);
    if (!live.ok()) return fail(live.status());
    found = *std::move(live);
  }
  tell_remarks(found.remarks);
  const std::vector<dumps::Verdict> verdicts = dumps::judge(found.parts);
  if (const Status status = tell(found, verdicts, asked); !status.ok()) return fail(status);
  return verdicts.empty() && !found.parts.empty() ? 0 : 1;
}

}  // namespace

void add_flight(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("flight", "Say who did not call what, from the flight recorders of ranks");
  const auto arguments = std::make_shared<Arguments>();
  Arguments& to = *arguments;
  CLI::Option* files =
      command->add_option("files", to.files, "What the ranks have written")->option_text("[FILE…]");
  const auto take_live = [&to](const std::vector<std::string>& folders) {
    to.live = folders.empty() || folders.front().empty() || folders.front() == "{}"
                  ? "auto"
                  : folders.front();
    return true;
  };
  command->add_option("--live", take_live, "Ask the ranks whose WEFT_LIVE is this folder (auto)")
      ->expected(0, 1)
      ->type_name("[FOLDER]")
      ->excludes(files);
  to.hosts.timeout_s = 5;
  const HostOptions hosts = add_host_options(*command, to.hosts);
  hosts.hosts->excludes(files);
  hosts.hostfile->excludes(files);
  command->add_option("--calls", to.calls, "Ask for so many of the latest calls of each rank")
      ->capture_default_str()
      ->check(number_in(0, 1024));
  command
      ->add_flag("--raw", to.raw,
                 "Write the dumps of this host's ranks as they are, and judge nothing")
      ->excludes(files)
      ->excludes(hosts.hosts)
      ->excludes(hosts.hostfile);
  command->add_flag("--metrics", to.metrics, "Write the metrics of the ranks instead")
      ->excludes(files);
  command->add_option("--list", to.list, "Also list so many of the latest calls of each rank")
      ->check(number_in(0, 1024));
  add_json_option(*command, to.json, "Verdicts as one JSON object");
  command->footer(kExamples);
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace weft
