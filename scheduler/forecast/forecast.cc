// What is asked, checked; and the run.
#include "scheduler/forecast/forecast.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <weft/graph/generators.h>
#include <weft/macros.h>

#include <algorithm>
#include <cmath>

#include "scheduler/forecast/table.h"
#include "scheduler/partial/partial.h"

namespace weft {
namespace {

constexpr int kMostForecastRanks = 1 << 14;
constexpr std::int64_t kMostForecastSteps = 1 << 27;  // of all ranks together

Status wrong(std::string text) {
  return Status(Code::invalid_argument, std::move(text));
}

const ForecastRow* row_of(std::string_view strategy) {
  const auto row = std::ranges::find(forecast_table(), strategy, &ForecastRow::name);
  return row == forecast_table().end() ? nullptr : &*row;
}

Status check_number(std::string_view name, double value, double least, double most) {
  if (value >= least && value <= most) return {};
  return wrong(fmt::format("{} is {}; {} to {} is possible", name, value, least, most));
}

Status check_shape(const TrainingJob& job) {
  WEFT_RETURN_IF_ERROR(check_number("ranks", job.ranks, 1, kMostForecastRanks));
  WEFT_RETURN_IF_ERROR(check_number("per_machine", job.per_machine, 1, job.ranks));
  if (job.ranks % job.per_machine != 0) {
    return wrong(fmt::format("{} ranks on machines with {} each: no whole number of machines",
                             job.ranks, job.per_machine));
  }
  if (job.graph && job.graph->size() != job.ranks)
    return wrong(fmt::format("a graph of {} ranks for {}", job.graph->size(), job.ranks));
  return {};
}

Status check_numbers(const TrainingJob& job) {
  constexpr double kMost = 1e12, kMostModel = 1e15;
  WEFT_RETURN_IF_ERROR(check_number("compute_us", job.compute_us, 1e-3, kMost));
  WEFT_RETURN_IF_ERROR(check_number("spread", job.spread, 0, 0.99));
  WEFT_RETURN_IF_ERROR(check_number("straggler", job.straggler, 0, 1000));
  WEFT_RETURN_IF_ERROR(check_number("model_bytes", job.model_bytes, 0, kMostModel));
  WEFT_RETURN_IF_ERROR(
      check_number("compressed_bytes", job.compressed_bytes.value_or(0), 0, kMostModel));
  WEFT_RETURN_IF_ERROR(check_number("gbit_per_s", job.network.gbit_per_s, 1e-6, 1e6));
  WEFT_RETURN_IF_ERROR(check_number("latency_us", job.network.latency_us, 0, kMost));
  WEFT_RETURN_IF_ERROR(
      check_number("memory_gbyte_per_s", job.network.memory_gbyte_per_s, 1e-6, 1e6));
  const auto most_steps = kMostForecastSteps / job.ranks;  // a whole number
  return check_number("steps", job.steps, 4, static_cast<double>(most_steps));
}

Status check_options(const ForecastRow& row, const TrainingJob& job) {
  const auto check_option = [&](std::string_view name, const std::optional<int>& value,
                                std::uint32_t bit, int most) -> Status {
    if (!value) return {};
    if ((row.has & bit) == 0)
      return wrong(fmt::format("strategy \"{}\" has no {}", row.name, name));
    return check_number(name, *value, name == "group_size" ? 2 : 1, most);
  };
  if (job.compressed_bytes && (row.has & kForecastCompression) == 0)
    return wrong(fmt::format("strategy \"{}\" has no compression", row.name));
  if (job.is_mesh && (row.has & kForecastTopology) == 0)
    return wrong(fmt::format("strategy \"{}\" has no topology", row.name));
  const auto most_section = static_cast<int>(kMostForecastSteps / job.ranks / job.steps);
  WEFT_RETURN_IF_ERROR(check_option("section", job.section, kForecastSection, most_section));
  WEFT_RETURN_IF_ERROR(check_option("peers", job.peers, kForecastPeers, 2));
  return check_option("group_size", job.group_size, kForecastGroupSize, kMostGroupSize);
}

}  // namespace

std::vector<std::string> forecast_strategies() {
  std::vector<std::string> names;
  for (const ForecastRow& row : forecast_table()) names.emplace_back(row.name);
  return names;
}

Status check(const TrainingJob& job) {
  const ForecastRow* row = row_of(job.strategy);
  if (row == nullptr) {
    return wrong(fmt::format("there is no strategy \"{}\", only {}", job.strategy,
                             fmt::join(forecast_strategies(), ", ")));
  }
  WEFT_RETURN_IF_ERROR(check_shape(job));
  WEFT_RETURN_IF_ERROR(check_numbers(job));
  return check_options(*row, job);
}

Result<TrainingForecast> forecast(const TrainingJob& asked) {
  WEFT_RETURN_IF_ERROR(check(asked));
  const ForecastRow& row = *row_of(asked.strategy);
  TrainingJob job = asked;
  if (!job.section && row.section > 1) job.section = row.section;
  if (!job.peers && (row.has & kForecastOnePeer) != 0) job.peers = 1;
  job.model_bytes = job.compressed_bytes.value_or(job.model_bytes);
  if (!job.graph) {
    WEFT_ASSIGN(const Graph graph, exponential_graph(job.ranks));
    job.graph.emplace(graph);
  }
  Training training(job);
  const std::unique_ptr<TrainingModel> model = row.make(training);
  return training.run(*model);
}

}  // namespace weft
