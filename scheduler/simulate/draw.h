// draw: what the drawings of this module share. Internal to the module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scheduler/simulate/simulate.h"
#include "topology/canvas/canvas.h"

namespace weft::simulator {

inline constexpr std::string_view kMemoryColor = "#9aa3ad";
inline constexpr std::string_view kCombineColor = "#f4b942";

[[nodiscard]] inline std::string_view rail_color(int rail) {
  return rail < 0 ? kMemoryColor : line_color(rail);
}

// Draws colors and their meanings in one line that begins at `at`: memory if it is used, the rails,
// and combining if asked for.
void draw_legend(Canvas& svg, Point at, const Simulation& simulation, const Cluster& cluster,
                 bool with_combining);

}  // namespace weft::simulator
