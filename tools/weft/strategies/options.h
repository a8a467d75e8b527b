// options: what `weft perf strategies` was asked to run, understood and checked.
#pragma once

#include <weft/graph.h>

#include <memory>
#include <string>
#include <vector>

#include "tools/weft/strategies/task.h"
#include "tools/weft/strategies/words.h"
#include "verbs/base/base.h"

namespace weft {

// As typed on the command line.
struct StrategiesArguments {
  std::string strategies = "parameter_server,allreduce,ad_psgd,prague,prague:random,prague:static";
  int ranks = 16;
  int hosts = 1;
  std::string graph = "exponential";
  double compute_ms = 20;
  std::string stragglers = "+2x";
  std::string size = "256K";
  double rate = 0;  // 0: the task's own
  double seconds = 2;
  int steps = 0;  // 0: as many as the seconds permit
  std::string task = "parabola";
  std::string data = "examples/data/digits.csv";
  double loss = 0.3;
  std::string json;
  std::string svg;
};

struct StrategiesOptions {
  std::vector<Contestant> strategies;
  std::vector<double> stragglers;  // iteration times that a rank sleeps more; 0 is first: none
  Graph graph;
  std::unique_ptr<Task> task;
  StrategiesArguments asked;
};

// Everything understood, or an invalid_argument that names what is wrong.
[[nodiscard]] Result<StrategiesOptions> understand(const StrategiesArguments& arguments);

}  // namespace weft
