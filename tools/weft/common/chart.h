// chart: curves between two axes, with the name of each beside its end, as an SVG document. The
// horizontal axis is logarithmic; so is the vertical one, unless all values are within a factor of
// five of each other. Then it begins at zero. Pure.
#pragma once

#include <string>
#include <vector>

#include "topology/canvas/canvas.h"

namespace weft {

struct Curve {
  std::string label;
  std::vector<Point> values;  // in any order, both coordinates above 0
  bool is_reference = false;  // what the others are compared with: drawn in gray
};

// What a chart says in words, and how it writes the numbers of its axes.
struct ChartText {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::string (*x_text)(double);
  std::string (*y_text)(double);
};

[[nodiscard]] std::string draw_chart(std::vector<Curve> curves, const ChartText& text);

}  // namespace weft
