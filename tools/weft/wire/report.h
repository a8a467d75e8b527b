// What `weft perf wire` tells: perftest's columns and ours, a row per size, or a JSON object.
#pragma once

#include <string>
#include <vector>

#include "tools/weft/common/save.h"
#include "tools/weft/wire/laps.h"
#include "tools/weft/wire/perftest.h"

namespace weft {

// One size, all rounds.
struct WireRow {
  std::size_t bytes = 0;
  std::uint32_t iterations = 0;  // of one round
  std::vector<WireLap> laps;
  std::vector<PerftestFigure> peers;  // of the same rounds; empty: not asked for
  double cpu_s = 0;                   // of both sides, all rounds
};

// MiB per second, as perftest counts MB.
[[nodiscard]] double average_mib(const WireRow& row, const WireLap& lap);
// Ours / theirs of each round: of bandwidths, or of median times where one operation is under way.
[[nodiscard]] std::vector<double> wire_ratios(const WireRow& row, bool is_latency);

class WireReport {
 public:
  // Opens the JSON file if one is asked for. Keeps the references.
  static Result<WireReport> open(const WireOptions& options, const WirePath& path);

  [[nodiscard]] Status head() const;
  [[nodiscard]] Status row(const WireRow& row) const;
  [[nodiscard]] Status done() { return rows_.close(); }

 private:
  // A row's figures, of all rounds.
  struct Figures;
  WireReport(const WireOptions& options, const WirePath& path, Rows rows)
      : options_(options), path_(path), rows_(std::move(rows)) {}
  [[nodiscard]] Figures figures(const WireRow& row) const;
  [[nodiscard]] std::string text(const WireRow& row) const;
  [[nodiscard]] std::string json(const WireRow& row) const;

  const WireOptions& options_;
  const WirePath& path_;
  Rows rows_;
};

}  // namespace weft
