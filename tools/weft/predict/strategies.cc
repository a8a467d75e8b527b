// The command: what is asked, and one forecast after the other.
#include "tools/weft/predict/strategies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <weft/graph/names.h>
#include <weft/macros.h>

#include <algorithm>
#include <memory>

#include "engine/compress/compress.h"
#include "tools/weft/common/bytes.h"
#include "tools/weft/common/stop.h"
#include "tools/weft/strategies/words.h"

namespace weft {
namespace {

constexpr const char* kForecastExamples = R"(
In each step the ranks compute for --compute-ms, and then exchange the model as the strategy does. With
--straggler +2x the last rank sleeps two iteration times more, so it is three times as slow; this is what
Prague's figures call a slowdown of 2. steps/s are those of all ranks together, kept is their share of what
the same strategy has without a straggler, bytes what a rank sends in a step. The last columns say for
which part of the time the interface of a machine sends or receives: that of the busiest machine, and of
the median one. docs/simulation.md has the model.

A strategy may have options: diloco/section=20, dpsgd/peers=1/compression=sketch.

Examples:
  weft predict strategies
  weft predict strategies --strategies parameter_server,allreduce,prague --ranks 256 --svg steps.svg
  weft predict strategies --strategies parameter_server,sharded_server --straggler none --links-svg links.svg
  weft predict strategies --strategies prague --generator)";

constexpr double kNoRate = -1;
constexpr std::size_t kMostModel = std::size_t{1} << 40;

struct Forecasts {
  std::vector<Contestant> strategies;
  std::vector<double> stragglers;
  TrainingJob job;  // without a strategy and a straggler
};

Status refuse(std::string text) {
  return Status(Code::invalid_argument, std::move(text));
}

// The others change what a model learns, or are the paper's: s is 18 for Canary.
Status check_options(const Contestant& each) {
  const StrategyOptions& options = each.options;
  if (options.rate == kNoRate && !options.momentum && !options.seed && !options.outer_rate &&
      !options.outer_momentum && !options.colayers && !options.staleness && !options.proportion)
    return {};
  return refuse(
      fmt::format("--strategies {}: the forecast knows the options section, peers, compression and "
                  "topology",
                  each.label));
}

Result<Forecasts> read(const ForecastArguments& asked) {
  Forecasts found;
  const std::vector<std::string> known = forecast_strategies();
  const std::string list =
      asked.strategies.empty() ? fmt::format("{}", fmt::join(known, ",")) : asked.strategies;
  WEFT_ASSIGN(found.strategies, contestants(list, known, kNoRate));
  for (const Contestant& each : found.strategies) WEFT_RETURN_IF_ERROR(check_options(each));
  WEFT_ASSIGN(found.stragglers, stragglers(asked.stragglers));
  WEFT_ASSIGN(const std::size_t bytes, bytes_of("--size", asked.size));
  if (bytes > kMostModel) return refuse(fmt::format("--size {}: at most 1024G", asked.size));
  if (asked.per_machine > asked.ranks || asked.ranks % asked.per_machine != 0) {
    return refuse(fmt::format("--per-machine {}: {} ranks are no whole number of machines",
                              asked.per_machine, asked.ranks));
  }
  const Result<Graph> graph = make_graph(asked.graph, asked.ranks);
  if (!graph.ok()) return refuse(fmt::format("--graph {}: {}", asked.graph, graph.status().text()));
  TrainingJob& job = found.job;
  job.ranks = asked.ranks;
  job.per_machine = asked.per_machine;
  job.compute_us = asked.compute_ms * 1e3;
  job.spread = asked.spread / 100;
  job.model_bytes = static_cast<double>(bytes);
  job.network = asked.network;
  job.graph.emplace(*graph);
  job.steps = asked.steps;
  job.seed = asked.seed;
  return found;
}

TrainingJob job_of(const Forecasts& asked, const Contestant& strategy, double straggler) {
  TrainingJob job = asked.job;
  job.strategy = strategy.name;
  job.straggler = straggler;
  job.section = strategy.options.section;
  job.peers = strategy.options.peers;
  if (strategy.options.topology) job.is_mesh = *strategy.options.topology == ExchangeTopology::mesh;
  if (strategy.options.compression != Compression::none) {
    const auto floats = static_cast<std::size_t>(job.model_bytes) / sizeof(float);
    job.compressed_bytes = static_cast<double>(encoded_bytes(strategy.options.compression, floats));
  }
  return job;
}

Status check(const Forecasts& asked) {
  for (const Contestant& strategy : asked.strategies) {
    const Status possible = check(job_of(asked, strategy, 0));
    if (!possible.ok())
      return refuse(fmt::format("--strategies {}: {}", strategy.label, possible.text()));
  }
  return {};
}

Status run(const Forecasts& asked, const ForecastArguments& arguments, ForecastReport& report) {
  for (const Contestant& strategy : asked.strategies) {
    double alone = 0;  // steps/s without a straggler
    for (const double straggler : asked.stragglers) {
      if (is_told_to_stop()) return report.close();
      WEFT_ASSIGN(const TrainingForecast found, forecast(job_of(asked, strategy, straggler)));
      if (straggler == 0) alone = found.steps_per_s;
      WEFT_RETURN_IF_ERROR(
          report.add({strategy.label, straggler, found, found.steps_per_s / alone}));
    }
  }
  if (arguments.has_generator) {
    WEFT_RETURN_IF_ERROR(
        report.generator(generator_us(arguments.ranks, arguments.per_machine, arguments.seed)));
  }
  return report.close();
}

int fail_forecast(const Status& status) {
  fmt::print(stderr, "weft predict strategies: {}\n", status.to_string());
  return status.code() == Code::invalid_argument ? kUsageError : 1;
}

int run(const ForecastArguments& arguments) {
  const Result<Forecasts> asked = read(arguments);
  if (!asked.ok()) return fail_forecast(asked.status());
  if (const Status possible = check(*asked); !possible.ok()) return fail_forecast(possible);
  Result<ForecastReport> report = ForecastReport::open(arguments);
  if (!report.ok()) return fail_forecast(report.status());
  stop_by_signals();
  const Status status = run(*asked, arguments, *report);
  return status.ok() ? stopped_status() : fail_forecast(status);
}

}  // namespace

void add_forecast(CLI::App& predict, Action& action) {
  CLI::App* command = predict.add_subcommand(
      "strategies", "Predict how fast strategies train, with and without a slow rank");
  command->option_defaults()->always_capture_default();
  const auto arguments = std::make_shared<ForecastArguments>();
  ForecastArguments& to = *arguments;
  command->add_option("--strategies", to.strategies,
                      fmt::format("Of {} [all]", fmt::join(forecast_strategies(), ", ")));
  command->add_option("-n,--ranks", to.ranks, "Number of ranks")->check(number_in(1, 16384));
  command->add_option("--per-machine", to.per_machine, "Ranks of each machine")
      ->check(number_in(1, 16384));
  command->add_option("--graph", to.graph, "Graph of the ranks, as `weft graph` names them");
  command->add_option("--compute-ms", to.compute_ms, "Milliseconds that a rank computes in a step")
      ->check(number_in(0.001, 60'000.0));
  command
      ->add_option("--spread", to.spread,
                   "Percent by which a computation is longer or shorter, by chance")
      ->check(number_in(0.0, 99.0));
  command->add_option("--straggler", to.stragglers,
                      "Iteration times that the last rank sleeps more: +2x is three times as slow; "
                      "a list; none");
  command->add_option("--size", to.size, "Bytes of the model");
  command->add_option("--gbit", to.network.gbit_per_s, "Gbit/s of a machine's interface, each way")
      ->check(number_in(1e-3, 1e6));
  command->add_option("--latency", to.network.latency_us, "Microseconds of a message")
      ->check(number_in(0.0, 1e9));
  command
      ->add_option("--memory", to.network.memory_gbyte_per_s,
                   "GB/s at which a rank reads what another one of its machine sends")
      ->check(number_in(1e-3, 1e6));
  command
      ->add_option("--steps", to.steps,
                   "Steps of a rank, or sections; the first quarter does not count")
      ->check(number_in(4, 8000));
  command->add_option("--seed", to.seed, "Of all that is by chance");
  command->add_flag("--generator", to.has_generator,
                    "Measure the processor time of the generator of smart groups, too");
  command->add_option("--svg", to.svg, "Draw the steps/s to this file");
  command->add_option("--links-svg", to.links_svg, "Draw how busy interfaces are to this file");
  add_json_option(*command, to.json, "One JSON object per line");
  command->footer(kForecastExamples);
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace weft
