// weft predict strategies: ways to train one model together on a cluster that need not exist. Internal to the
// command.
#pragma once

#include <string>
#include <vector>

#include "scheduler/forecast/forecast.h"
#include "tools/weft/commands.h"
#include "tools/weft/common/save.h"

namespace weft {

// As typed on the command line.
struct ForecastArguments {
  std::string strategies;  // empty: all
  int ranks = 1024;
  int per_machine = 8;
  std::string graph = "exponential";
  double compute_ms = 20;
  double spread = 5;  // percent
  std::string stragglers = "+2x,+5x";
  std::string size = "16M";
  TrainingNetwork network{.gbit_per_s = 100};
  int steps = 100;
  std::uint64_t seed = 1;
  bool has_generator = false;
  std::string json;
  std::string svg;
  std::string links_svg;
};

struct ForecastResult {
  std::string strategy;  // as typed
  double straggler = 0;  // iteration times that a rank sleeps more
  TrainingForecast forecast;
  double kept = 1;  // share of the steps/s without a straggler
};

class ForecastReport {
 public:
  [[nodiscard]] static Result<ForecastReport> open(const ForecastArguments& asked);
  [[nodiscard]] Status add(const ForecastResult& result);
  // What the generator of groups needs of a core.
  [[nodiscard]] Status generator(double us_per_request);
  // After all results.
  [[nodiscard]] Status close();

 private:
  explicit ForecastReport(const ForecastArguments& asked) : asked_(asked) {}

  ForecastArguments asked_;
  Rows rows_;
  std::vector<ForecastResult> results_;
};

// The processor time that the generator of smart groups needs for a request, with all that belongs to it, on
// this machine: the mean over `rounds`, in each of which every worker asks once.
[[nodiscard]] double generator_us(int ranks, int per_machine, std::uint64_t seed, int rounds = 20);

// Adds itself to `weft predict`.
void add_forecast(CLI::App& predict, Action& action);

}  // namespace weft
