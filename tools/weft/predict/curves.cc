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

// What the curves are drawn over; what else differs makes another curve.
enum class Axis : std::uint8_t { ranks, sizes, lanes };

struct Differing {
  Axis axis = Axis::ranks;
  bool sizes = false;
  bool lanes = false;
};

Differing differing(const std::vector<PredictRow>& rows) {
  std::set<int> ranks, lanes;
  std::set<std::size_t> sizes;
  for (const PredictRow& row : rows) {
    ranks.insert(row.ranks);
    sizes.insert(row.bytes);
    lanes.insert(row.lanes);
  }
  Differing differing{Axis::ranks, sizes.size() > 1, lanes.size() > 1};
  if (ranks.size() > 1) return differing;
  if (differing.sizes) {
    differing.axis = Axis::sizes;
  } else if (differing.lanes) {
    differing.axis = Axis::lanes;
  }
  return differing;
}

std::string label_of(const PredictRow& row, const Differing& differing) {
  std::string label = row.operation;
  if (row.operation != row.algorithm) label += fmt::format(" {}", row.algorithm);
  if (differing.sizes && differing.axis != Axis::sizes)
    label += fmt::format(" {}", bytes_text(row.bytes));
  if (differing.lanes && differing.axis != Axis::lanes)
    label += fmt::format(" {} {}", row.lanes, row.lanes == 1 ? "lane" : "lanes");
  return label;
}

double place_of(const PredictRow& row, Axis axis) {
  if (axis == Axis::sizes) return static_cast<double>(row.bytes);
  return axis == Axis::lanes ? row.lanes : row.ranks;
}

std::string name(Axis axis) {
  if (axis == Axis::sizes) return "bytes";
  return axis == Axis::lanes ? "lanes of a rank" : "ranks";
}

}  // namespace

std::string draw_curves(const std::vector<PredictRow>& rows, const std::string& title,
                        double compute_us) {
  const Differing differ = differing(rows);
  std::vector<Curve> curves;
  for (const PredictRow& row : rows) {
    const std::string label = label_of(row, differ);
    auto curve = std::ranges::find(curves, label, &Curve::label);
    if (curve == curves.end()) curve = curves.insert(curves.end(), {label, {}});
    const double x = place_of(row, differ.axis);
    if (x > 0 && row.us + compute_us > 0) curve->values.push_back({x, row.us + compute_us});
  }
  return draw_chart(std::move(curves),
                    {title, name(differ.axis), compute_us > 0 ? "time of an iteration" : "time",
                     differ.axis == Axis::sizes ? size_text : count_text, us_text});
}

}  // namespace weft
