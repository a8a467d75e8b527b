// forecast: how fast a job trains with each strategy (docs/strategies.md) on a cluster that need not exist,
// with and without a slow rank, and how busy the links are.
//
// The ranks compute, exchange and wait as those of the strategy do; partial all-reduce has the real generator
// of groups. An exchange is not simulated message by message, as in scheduler/simulate, but by what it loads
// onto each link:
//
//   rank computes ──► exchange: so many bytes out of machine 3, into machine 7, … ──► next iteration
//                       │
//                       └─ a link carries its exchanges one after the other; an exchange ends when its last
//                          link has carried its share, and its messages have had their latency
//
// So 1,024 ranks take a second, where the messages would take hours. Combining, headers and switches are
// left out.
//
// Values and pure functions of values; any thread may call. Equal inputs give equal results.
#pragma once

#include <weft/graph/digraph.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

struct TrainingNetwork {
  double gbit_per_s = 25;          // of a machine's interface, each way
  double latency_us = 10;          // of a message between machines
  double memory_gbyte_per_s = 10;  // at which a rank reads what another rank of its machine sends
};

struct TrainingJob {
  std::string strategy;  // one of forecast_strategies()
  int ranks = 1024;
  int per_machine = 8;         // ranks count machine by machine
  double compute_us = 20'000;  // of an iteration
  double spread =
      0.05;  // an iteration computes for longer or shorter by up to this share, by chance
  double straggler = 0;  // the last rank sleeps for so many iteration times more
  double model_bytes = 100e6;
  std::optional<double>
      compressed_bytes{};  // in which a gradient or model travels that is compressed
  TrainingNetwork network{};
  std::optional<Graph> graph{};     // of the ranks; absent: exponential
  std::optional<int> section{};     // as in StrategyOptions
  std::optional<int> peers{};       // as in StrategyOptions
  std::optional<int> group_size{};  // of prague and prague:random; 3 if absent
  std::optional<bool> is_mesh{};    // the topology of canary and its settings; false if absent
  int steps = 100;                  // of a rank, on average; of what has sections, so many sections
  std::uint64_t seed = 1;
};

// What is told is of the last three quarters of the steps.
struct TrainingForecast {
  double steps_per_s = 0;     // of all ranks together
  double bytes_per_step = 0;  // that a rank sends in a step, the mean over the ranks
  // Interfaces of machines; of a single machine, the ranks' memory. Their share is the part of the time in
  // which they send or receive.
  std::string busiest;
  double busiest_share = 0;
  double median_share = 0;
  std::uint64_t dropped = 0;  // gradients that are in no model
};

// "parameter_server", …: the names of weft/strategies.h, and "canary", "canary:bulk", "canary:bounded" and
// "canary:asynchronous".
[[nodiscard]] std::vector<std::string> forecast_strategies();

// invalid_argument, which names what is wrong: no such strategy, an option that it does not have, or a number
// that has no meaning.
[[nodiscard]] Status check(const TrainingJob& job);
// Errors are those of check().
[[nodiscard]] Result<TrainingForecast> forecast(const TrainingJob& job);

}  // namespace weft
