// weft tune: finds settings that are faster here than the defaults, by measuring.
#include "tools/weft/tune/tune.h"

#include <fmt/format.h>
#include <weft/version.h>

#include <charconv>

#include "tools/weft/commands.h"
#include "tools/weft/common/bytes.h"
#include "tools/weft/common/own_ranks.h"
#include "tools/weft/common/save.h"
#include "tools/weft/common/stop.h"
#include "tools/weft/tune/search.h"

namespace weft {
namespace {

struct TuneArguments {
  std::string time = "60s";
  std::string output = "weft-profile.toml";
  std::string sizes = "4K,64K,512K,4M";
  std::string explain;
  int ranks = 4;
};

struct TuneOptions {
  double seconds = 0;
  std::vector<std::size_t> sizes;
};

constexpr const char* kExamples = R"(
Measures the algorithm of an allreduce by size, the size from which messages are not copied, pieces, slots, queue
pairs, lanes, spinning and fusion, each beside the defaults in rounds that take turns. The operations are allreduce,
neighbor_allreduce on an exponential graph and allgather, at --sizes, as long as one call takes less than 1/400 of
--time. At the end all that was taken is measured beside the defaults once more. Only if it is faster, and no
operation loses, the profile is written. Ctrl-C ends the search and keeps the best so far. Variables that are set stay
as they are. Without `weft run` around it, the ranks are started here, as by `weft perf`.

The ranks of a job take the profile from WEFT_PROFILE, which names the file. A variable that is set wins over it. A
job with other ranks, machines, cores or rails refuses it.

Examples:
  weft tune -n 4                                          ranks on this machine
  weft run -n 4 -- weft tune --time 2m -o here.toml       the same, by a launcher; also mpirun, srun
  weft tune --explain here.toml                           each value, and what was measured for it
  WEFT_PROFILE=here.toml weft run -n 4 -- PROGRAM)";

int fail(const Status& status) {
  fmt::print(stderr, "weft tune: {}\n", status.text());
  return status.code() == Code::invalid_argument ? kUsageError : 1;
}

Result<double> seconds_from(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  constexpr double kLeast = 1, kMost = 86'400;
  const double seconds = number * factor;
  if (error != std::errc{} || !(seconds >= kLeast && seconds <= kMost))
    return Status(
        Code::invalid_argument,
        fmt::format("--time {}: expected a time from 1s to 24h, such as 90s or 5m", text));
  return seconds;
}

Result<TuneOptions> understand(const TuneArguments& arguments) {
  constexpr std::size_t kMostBytes = std::size_t{256} << 20;
  constexpr std::size_t kMostSizes = 16;
  TuneOptions options;
  WEFT_ASSIGN(options.seconds, seconds_from(arguments.time));
  for (std::string_view rest = arguments.sizes; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    WEFT_ASSIGN(const std::size_t bytes, bytes_of("--sizes", rest.substr(0, comma)));
    if (bytes < sizeof(float) || bytes > kMostBytes)
      return Status(Code::invalid_argument,
                    fmt::format("--sizes {}: expected 4 to 256M", rest.substr(0, comma)));
    options.sizes.push_back(bytes / sizeof(float) * sizeof(float));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (options.sizes.empty() || options.sizes.size() > kMostSizes)
    return Status(Code::invalid_argument, "--sizes: expected 1 to 16 sizes");
  return options;
}

// Variables that the user has set, which a profile could not change.
std::set<std::string> set_by_user() {
  std::set<std::string> names;
  const std::vector<std::string> entries = environment();
  for (const std::string_view name : tuned_variables())
    if (is_set(entries, name)) names.emplace(name);
  return names;
}

void tell(const TuneFound& found, const std::string& output) {
  for (const std::string& note : found.notes) fmt::print(stderr, "weft tune: {}\n", note);
  if (!found.is_better) {
    fmt::print("no profile is written: {}\n", found.why_not);
    return;
  }
  for (const auto& [name, value] : found.profile.settings) fmt::print("{}={}\n", name, value);
  fmt::print("{:.2f} times as fast as the defaults{}; written to {}\n", found.profile.times,
             found.profile.is_complete ? "" : " (interrupted, not checked at the end)", output);
}

Status tune_rank(const TuneArguments& arguments, const TuneOptions& options, const Config& config,
                 const std::shared_ptr<Store>& store) {
  stop_by_signals();
  const std::size_t most = *std::ranges::max_element(options.sizes);
  WEFT_ASSIGN(const std::unique_ptr<Bench> bench,
              Bench::open(config, store, options.seconds, most));
  const Status writable = bench->leads() ? check_writable(arguments.output) : Status();
  WEFT_ASSIGN(const double refused, bench->worst(writable.ok() ? 0 : 1));
  WEFT_RETURN_IF_ERROR(writable);
  if (refused != 0) return Status(Code::peer_left, "rank 0 cannot write the profile");
  const auto say = [&](const std::string& text) {
    if (bench->leads())
      fmt::print(stderr, "weft tune: {:.0f} of {:.0f} s: {}\n", bench->spent_s(), options.seconds,
                 text);
  };
  Search search(*bench, options.sizes, set_by_user(), config, say);
  const Status status = search.run();
  if (!bench->leads()) return status;
  TuneFound found = search.found();
  found.profile.weft = version();
  const Result<Context::Placement> placement = bench->control().placement();
  WEFT_RETURN_IF_ERROR(placement.status());
  const std::string& topology = placement->topology;
  const std::size_t space = topology.find(' ');
  found.profile.topology = topology.substr(0, space);
  found.profile.about = topology.substr(space + 2, topology.size() - space - 3);
  if (found.is_better) WEFT_RETURN_IF_ERROR(save(arguments.output, to_toml(found.profile)));
  tell(found, arguments.output);
  return status;
}

int join(const TuneArguments& arguments, const TuneOptions& options, Config config) {
  const Result<std::shared_ptr<Store>> store = open_store(config);
  if (!store.ok()) return fail(store.status());
  const Status status = tune_rank(arguments, options, config, *store);
  const Status left = (*store)->goodbye(Deadline::after_ms(config.deadline_ms));
  if (!status.ok()) return status.code() == Code::peer_left ? 1 : fail(status);
  return left.ok() ? 0 : fail(left);
}

int run(const TuneArguments& arguments) {
  if (!arguments.explain.empty()) {
    const Result<Profile> profile = read_profile(arguments.explain);
    if (!profile.ok()) return fail(profile.status());
    const Status printed = print_now(explain(*profile));
    return printed.ok() ? 0 : fail(printed);
  }
  const Result<TuneOptions> options = understand(arguments);
  if (!options.ok()) return fail(options.status());
  const Result<Config> config = Config::from_environment(UnknownNames::refuse);
  if (!config.ok()) return fail(config.status());
  if (!config->profile.empty()) {
    return fail(Status(Code::invalid_argument,
                       "WEFT_PROFILE is set: unset it, so that the defaults are measured"));
  }
  if (config->launcher != Launcher::alone) return join(arguments, *options, *config);
  if (const Status status = check_writable(arguments.output); !status.ok()) return fail(status);
  const Result<int> status = run_own_ranks(arguments.ranks, Binding::automatic);
  return status.ok() ? *status : fail(status.status());
}

}  // namespace

void add_tune(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("tune", "Measure which settings are fastest here, and write a profile");
  command->option_defaults()->always_capture_default();
  const auto arguments = std::make_shared<TuneArguments>();
  command->add_option("--time", arguments->time, "About so long in all: 60s, 5m");
  command->add_option("-o,--output", arguments->output, "Where the profile is written");
  command->add_option("--sizes", arguments->sizes, "Bytes of one rank's input: 4K,1M");
  command->add_option("-n,--ranks", arguments->ranks, "Ranks, if no launcher has started any")
      ->check(number_in(1, 4096));
  command->add_option("--explain", arguments->explain, "Show this profile; measures nothing")
      ->type_name("FILE");
  command->footer(kExamples);
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace weft
