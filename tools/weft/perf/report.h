// What rank 0 prints: a row of a table for people, a JSON object for programs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/weft/common/save.h"
#include "tools/weft/perf/measure.h"
#include "tools/weft/perf/options.h"

namespace weft {

// One size's scores by what they mean.
struct Row {
  std::size_t bytes = 0;
  Score own;
  std::optional<Score> limit;
  std::string no_limit;           // why the machine has none; empty: the operation has none
  std::optional<Score> prepared;  // the same operation by Context::prepare()
  std::optional<Score> fixed;     // the same operation with static weights, beside --dynamic
  std::optional<Score> usual;     // the same operation without the fixed bits that were asked for
  std::optional<Score> peer;
  double ping_pong_ns = 0;
  bool reads_gpus = false;  // ranks read each other's GPU memory where it is
  bool by_nccl = false;     // most of what was timed ran by NCCL
  // Of a window's operation.
  std::size_t pages = 1;               // that `bytes` consist of
  std::optional<Score> singles;        // the same pages, each with a call of its own
  std::optional<Score> puts_in_turn;   // round trips of puts that are waited for at the peer
  std::optional<Score> lines_in_turn;  // round trips of one cache line
};

class Report {
 public:
  // Opens the JSON file if one is asked for. Keeps a reference.
  static Result<Report> open(const PerfOptions& options);

  [[nodiscard]] Status head() const;
  [[nodiscard]] Status row(const Row& row);
  // Draws the rows where a picture is asked for.
  [[nodiscard]] Status done();

 private:
  Report(const PerfOptions& options, Rows rows) : options_(&options), rows_(std::move(rows)) {}
  [[nodiscard]] std::string json(const Row& row) const;
  [[nodiscard]] std::string text(const Row& row) const;
  [[nodiscard]] std::string window_text(const Row& row) const;

  const PerfOptions* options_;
  Rows rows_;
  std::vector<std::string> drawn_;  // as JSON
};

// Measures each size, and reports it at the rank that leads. All ranks call it alike.
Status report_sizes(const PerfOptions& options, bool leads,
                    const std::function<Result<Row>(std::size_t bytes)>& measure_size);

}  // namespace weft
