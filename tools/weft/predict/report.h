// What `weft predict` says: a table, JSON lines, and curves. Internal to the command.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/weft/common/lanes.h"
#include "tools/weft/common/save.h"
#include "tools/weft/predict/options.h"

namespace weft {

struct PredictRow {
  std::string operation;
  std::string algorithm;  // that was chosen
  std::string reason;     // why
  int ranks = 0;
  std::size_t bytes = 0;
  int lanes = 1;           // of each rank, as asked
  int lanes_used = 1;      // that have a part in it
  double us = 0;           // of a schedule: the mean over its steps
  double usual_us = 0;     // the same with other bits than fixed ones; 0: nobody asked
  double identity_us = 0;  // the same in the seats of the identity; 0: it cannot be done there
  CountedBytes counted;
  double ideal_us = 0;  // 0: not known
  std::uint64_t messages = 0;
  int alike = 0;
  std::string alike_reason;
  std::string busiest;  // link; empty: nothing was carried
  double busiest_share = 0;
  std::string path;       // what the critical path is made of
  double lane_share = 0;  // of the critical path, in which lanes work
  std::string lane_work;  // "combining", "reading memory" or both
  // With --explain: of the first step.
  std::vector<Phase> phases;
  std::vector<std::pair<std::string, Link>> links;  // those that carried something, by name
};

// How many lanes a rank should have for what a row predicts with one.
struct RowAdvice {
  LaneAdvice lanes;   // 1: no more
  int most = 1;       // lanes that could be
  std::string cores;  // cores_text()
};

class PredictReport {
 public:
  [[nodiscard]] static Result<PredictReport> open(const PredictOptions& options);
  [[nodiscard]] Status head(const Cluster& cluster) const;
  // Before the rows of so many ranks.
  [[nodiscard]] Status placement(int ranks, const FoundPlacement& found) const;
  // `advice`: null if none was asked for.
  [[nodiscard]] Status row(const PredictRow& row, const RowAdvice* advice) const;
  // After all rows.
  [[nodiscard]] Status advice(const PredictRow& row, const RowAdvice& advice) const;
  [[nodiscard]] Status close() { return rows_.close(); }

 private:
  [[nodiscard]] std::string text(const PredictRow& row, const RowAdvice* advice) const;

  Rows rows_;
  bool explains_ = false;
  std::size_t width_ = 18;  // of the first column
  double compute_us_ = 0;
  bool are_fixed_ = false;
  bool is_placed_ = false;
  bool has_lanes_ = false;  // they were asked for
  std::string graph_;       // that seats are searched for
};

// Times as curves over the ranks; over sizes where there is one number of ranks; over lanes where
// there is one size, too. A curve for each operation and algorithm, size, and number of lanes.
// Logarithmic axes, but for times that hardly differ.
[[nodiscard]] std::string draw_curves(const std::vector<PredictRow>& rows, const std::string& title,
                                      double compute_us);

}  // namespace weft
