// The command, and what it prints.
#include "tools/weft/strategies/strategies.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/weft/common/save.h"
#include "tools/weft/strategies/bars.h"
#include "tools/weft/strategies/race.h"

namespace weft {
namespace {

constexpr const char* kExamples = R"(
The ranks are threads that sleep --compute-ms in each step, as if they computed. Those of one host exchange in
shared memory, and hosts (--hosts) over TCP of this machine. With --straggler +2x the last rank sleeps two iteration times more, so it is three times as
slow; this is what Prague's figures call a slowdown of 2. steps/s are those of all ranks together,
kept is their share of what the same strategy has without a straggler, consensus the largest distance of a
model from the mean of all, relative to the mean, bytes what a rank sends in a step, the mean and the
most of any. With --task digits the model learns to read handwritten digits: to loss is when the model
of rank 0 had --loss on all images to learn from.

A strategy may have options: diloco/section=20/outer_rate=0.5, dpsgd/momentum=0.9/compression=sketch. They
are rate, momentum, section, peers, seed, compression, outer_rate, outer_momentum,
colayers, staleness, proportion, topology.

Examples:
  weft perf strategies --straggler +2x,+5x --strategies parameter_server,allreduce,ad_psgd,prague
  weft perf strategies --strategies local_sgd/section=1,local_sgd/section=4,local_sgd/section=16
  weft perf strategies --task digits --compute-ms 0 --steps 600 --straggler none --strategies allreduce,diloco,noloco)";

struct Row {
  std::string strategy;
  double straggler = 0;
  RaceResult result;
  double kept = 1;
};

std::string header(bool has_loss) {
  return fmt::format(
      "{:<34} {:>9} {:>9} {:>6} {:>10} {:>11} {:>11}{}\n", "strategy", "straggler", "steps/s",
      "kept", "consensus", "bytes/step", "busiest",
      has_loss ? fmt::format(" {:>8} {:>9} {:>16}", "loss", "accuracy", "to loss") : std::string());
}

std::string text(const Row& row) {
  const RaceResult& it = row.result;
  std::string line = fmt::format("{:<34} {:>9} {:>9.1f} {:>6.2f} {:>10.2e} {:>11.0f} {:>11.0f}",
                                 row.strategy, straggler_text(row.straggler), it.steps_per_s,
                                 row.kept, it.consensus, it.bytes_per_step, it.busiest_per_step);
  if (it.loss) {
    const std::string reached =
        it.steps_to_loss ? fmt::format("{} in {:.2f} s", *it.steps_to_loss, *it.seconds_to_loss)
                         : "-";
    line += fmt::format(" {:>8.4f} {:>9.4f} {:>16}", *it.loss, *it.accuracy, reached);
  }
  return line + "\n";
}

std::string json(const Row& row, const StrategiesArguments& asked) {
  const RaceResult& it = row.result;
  nlohmann::ordered_json object{{"op", "strategies"},
                                {"strategy", row.strategy},
                                {"ranks", asked.ranks},
                                {"hosts", asked.hosts},
                                {"graph", asked.graph},
                                {"task", asked.task},
                                {"compute_ms", asked.compute_ms},
                                {"straggler", row.straggler},
                                {"steps", it.steps},
                                {"steps_per_s", it.steps_per_s},
                                {"kept", row.kept},
                                {"consensus", it.consensus},
                                {"bytes_per_step", it.bytes_per_step},
                                {"busiest_bytes_per_step", it.busiest_per_step},
                                {"dropped", it.dropped}};
  if (it.loss) {
    object["loss"] = *it.loss;
    object["accuracy"] = *it.accuracy;
    object["wanted_loss"] = asked.loss;
  }
  if (it.steps_to_loss) {
    object["steps_to_loss"] = *it.steps_to_loss;
    object["seconds_to_loss"] = *it.seconds_to_loss;
  }
  return object.dump();
}

std::string picture(const std::vector<Row>& rows, const StrategiesArguments& asked) {
  std::vector<StrategyBar> bars;
  for (const Row& row : rows) {
    const double length = row.result.steps_per_s;
    bars.push_back(
        {row.strategy, row.straggler, length, bar_text(length, row.kept, row.straggler)});
  }
  return draw_bars(
      bars,
      fmt::format("Steps/s of {} ranks that compute {} ms a step", asked.ranks, asked.compute_ms),
      kKeptText);
}

Status run(const StrategiesOptions& options, const Config& config) {
  WEFT_ASSIGN(Rows rows, Rows::open(options.asked.json));
  WEFT_RETURN_IF_ERROR(rows.text(header(options.asked.task == "digits")));
  std::vector<Row> all;
  for (const Contestant& each : options.strategies) {
    double alone = 0;  // steps/s without a straggler
    for (const double straggler : options.stragglers) {
      WEFT_ASSIGN(const RaceResult result, race(options, config, each, straggler));
      if (straggler == 0) alone = result.steps_per_s;
      const Row row{each.label, straggler, result, alone > 0 ? result.steps_per_s / alone : 0};
      WEFT_RETURN_IF_ERROR(rows.text(text(row)));
      WEFT_RETURN_IF_ERROR(rows.json(json(row, options.asked)));
      all.push_back(row);
    }
  }
  if (!options.asked.svg.empty())
    WEFT_RETURN_IF_ERROR(save(options.asked.svg, picture(all, options.asked)));
  return rows.close();
}

int fail(const Status& status) {
  fmt::print(stderr, "weft perf strategies: {}\n", status.to_string());
  return status.code() == Code::invalid_argument ? kUsageError : 1;
}

int run(const StrategiesArguments& arguments) {
  const Result<Config> config = Config::from_environment(UnknownNames::refuse);
  if (!config.ok()) return fail(config.status());
  if (config->launcher != Launcher::alone)
    return fail(
        Status(Code::invalid_argument, "it starts its own ranks; run it without a launcher"));
  const Result<StrategiesOptions> options = understand(arguments);
  if (!options.ok()) return fail(options.status());
  const Status status = run(*options, *config);
  return status.ok() ? 0 : fail(status);
}

}  // namespace

void add_strategies(CLI::App& perf, Action& action) {
  CLI::App* command = perf.add_subcommand(
      "strategies", "Measure ways to train one model together, with and without a slow rank");
  const auto arguments = std::make_shared<StrategiesArguments>();
  StrategiesArguments& to = *arguments;
  command->add_option("--strategies", to.strategies,
                      fmt::format("Of {}", fmt::join(strategy_names(), ", ")));
  command->add_option("-n,--ranks", to.ranks, "Number of ranks")->check(number_in(1, 256));
  command->add_option("--hosts", to.hosts, "Machines that the ranks play, each with its share");
  command->add_option("--graph", to.graph, "Graph, as `weft graph` names them");
  command->add_option("--compute-ms", to.compute_ms, "Milliseconds that a rank sleeps in a step")
      ->check(number_in(0.0, 60'000.0));
  command->add_option("--straggler", to.stragglers,
                      "Iteration times that the last rank sleeps more: +2x is three times as slow; "
                      "a list +2x,+5x; none");
  command->add_option("--size", to.size, "Bytes of the model of the parabola");
  command->add_option("--rate", to.rate, "Of the steps; 0: what suits the task")
      ->check(number_in(0.0, 1000.0));
  command->add_option("--seconds", to.seconds, "So long each")->check(number_in(0.001, 3600.0));
  command->add_option("--steps", to.steps, "Steps of each rank instead; 0: by --seconds")
      ->check(number_in(0, 1'000'000));
  command->add_option("--task", to.task, "parabola, which costs nothing; digits");
  command->add_option("--data", to.data, "Of digits: rows of 64 pixels and a label");
  command->add_option("--loss", to.loss, "Of digits: the loss whose time is told");
  command->add_option("--svg", to.svg, "Draw the steps/s to this file");
  add_json_option(*command, to.json, "One JSON object per line");
  command->footer(kExamples);
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace weft
