// Predictions as curves over the number of ranks, or over the size.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tools/weft/common/bytes.h"
#include "tools/weft/common/chart.h"
#include "tools/weft/predict/report.h"

namespace weft {
namespace {

std::string count_text(double count) {
  return fmt::format("{}", static_cast<std::size_t>(count));
}

std::string size_text(double bytes) {
  return bytes_text(static_cast<std::size_t>(bytes));
}

std::string label_of(const PredictRow& row, bool names_size) {
  std::string label = row.operation;
  if (row.operation != row.algorithm) label += fmt::format(" {}", row.algorithm);
  if (names_size) label += fmt::format(" {}", bytes_text(row.bytes));
  return label;
}

}  // namespace

std::string draw_curves(const std::vector<PredictRow>& rows, const std::string& title,
                        double compute_us) {
  std::set<int> ranks;
  std::set<std::size_t> sizes;
  for (const PredictRow& row : rows) {
    ranks.insert(row.ranks);
    sizes.insert(row.bytes);
  }
  const bool over_sizes = ranks.size() == 1 && sizes.size() > 1;
  std::vector<Curve> curves;
  for (const PredictRow& row : rows) {
    const std::string label = label_of(row, !over_sizes && sizes.size() > 1);
    auto curve = std::ranges::find(curves, label, &Curve::label);
    if (curve == curves.end()) curve = curves.insert(curves.end(), {label, {}});
    const double x = over_sizes ? static_cast<double>(row.bytes) : row.ranks;
    if (x > 0 && row.us + compute_us > 0) curve->values.push_back({x, row.us + compute_us});
  }
  return draw_chart(std::move(curves), {title, over_sizes ? "bytes" : "ranks",
                                        compute_us > 0 ? "time of an iteration" : "time",
                                        over_sizes ? size_text : count_text, us_text});
}

}  // namespace weft
