// weft timeline: the files that WEFT_TRACE has written, as one, and where the time went.
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "tools/weft/commands.h"
#include "tools/weft/common/save.h"
#include "tools/weft/timeline/files.h"
#include "tools/weft/timeline/steps.h"
#include "tools/weft/timeline/summary.h"

namespace weft {
namespace {

struct Arguments {
  std::vector<std::string> files;
  std::string output;
  std::string json;
};

constexpr const char* kExamples = R"(
WEFT_TRACE=trace-{rank}.json makes each rank write what its lanes did; contexts that were made of
one, and operations by name, write files of their own beside it. A merged file opens in
https://ui.perfetto.dev and chrome://tracing. The files of several machines are as far apart as the
clocks of the machines say.

Examples:
  WEFT_TRACE=trace-{rank}.json weft run -n 4 -- ./train
  weft timeline merge trace-*.json* --output all.json
  weft timeline show all.json                    per rank: operations, names, combining, waiting
  weft timeline show trace-*.json* --json
  weft timeline chakra trace-*.json* --output step      step.0.et, step.1.et, … for weft predict --chakra)";

int fail(const Status& status) {
  fmt::print(stderr, "weft timeline: {}\n", status.text());
  return status.code() == Code::invalid_argument ? kUsageError : 1;
}

Result<std::vector<TimelineFile>> read_files(const Arguments& arguments) {
  std::vector<TimelineFile> files;
  for (const std::string& path : arguments.files) {
    const auto is_same = [&path](const TimelineFile& other) {
      std::error_code error;
      return std::filesystem::equivalent(path, other.path, error);
    };
    if (std::ranges::any_of(files, is_same)) {
      fmt::print(stderr, "weft timeline: {} is given twice and counts once\n", path);
      continue;
    }
    WEFT_ASSIGN(TimelineFile file, read_timeline(path));
    files.push_back(std::move(file));
  }
  return files;
}

Result<std::vector<nlohmann::json>> read_all(const Arguments& arguments) {
  WEFT_ASSIGN(std::vector<TimelineFile> files, read_files(arguments));
  return merge_timelines(std::move(files));
}

Status merge(const Arguments& arguments) {
  WEFT_ASSIGN(const std::vector<nlohmann::json> events, read_all(arguments));
  return save(arguments.output, timeline_text(events));
}

Status show(const Arguments& arguments) {
  WEFT_ASSIGN(const std::vector<nlohmann::json> events, read_all(arguments));
  WEFT_ASSIGN(Rows rows, Rows::open(arguments.json));
  for (const TimelineOfRank& rank : summarize(events)) {
    WEFT_RETURN_IF_ERROR(rows.json(to_json(rank).dump()));
    WEFT_RETURN_IF_ERROR(rows.text(fmt::format("{}\n", fmt::join(describe(rank), "\n"))));
  }
  return rows.close();
}

// A file that was written.
void take_back(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(std::filesystem::symlink_status(path, error)))
    std::filesystem::remove(path, error);
}

// All files, or none: a place that cannot be written is noticed before the first.
Status chakra(const Arguments& arguments) {
  const auto name = [&](std::size_t rank) {
    return fmt::format("{}.{}.et", arguments.output, rank);
  };
  WEFT_ASSIGN(const std::vector<TimelineFile> files, read_files(arguments));
  WEFT_ASSIGN(const TimelineSteps steps, chakra_of(files));
  for (std::size_t rank = 0; rank < steps.ranks.size(); ++rank)
    WEFT_RETURN_IF_ERROR(check_writable(name(rank)));
  for (std::size_t rank = 0; rank < steps.ranks.size(); ++rank) {
    const Status saved = save(name(rank), chakra_bytes(steps.ranks[rank]));
    if (saved.ok()) continue;
    for (std::size_t other = 0; other <= rank; ++other) take_back(name(other));
    return saved;
  }
  for (const std::string& each : steps.left_out)
    fmt::print(stderr, "weft timeline: left out: {}\n", each);
  return print_now(fmt::format("{} calls of {} ranks in {} to {}\n", steps.operations,
                               steps.ranks.size(), name(0), name(steps.ranks.size() - 1)));
}

}  // namespace

void add_timeline(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("timeline", "Join the timelines of ranks, and say where the time went");
  command->require_subcommand(1);
  command->footer(kExamples);
  const auto arguments = std::make_shared<Arguments>();
  const auto add = [&](const char* name, const char* about, Status (*act)(const Arguments&)) {
    CLI::App* sub = command->add_subcommand(name, about);
    sub->add_option("files", arguments->files, "Timelines, as WEFT_TRACE writes them")->required();
    sub->callback([&action, arguments, act] {
      action = [arguments, act] {
        const Status status = act(*arguments);
        return status.ok() ? 0 : fail(status);
      };
    });
    return sub;
  };
  add("merge", "Put the files on one clock, as one file", merge)
      ->add_option("-o,--output", arguments->output, "The file")
      ->required();
  add("chakra", "Write them as MLCommons Chakra traces, NAME.RANK.et", chakra)
      ->add_option("-o,--output", arguments->output, "NAME, with its folder")
      ->required();
  add_json_option(*add("show", "Say where the time went", show), arguments->json,
                  "One JSON object per rank");
}

}  // namespace weft
