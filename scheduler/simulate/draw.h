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

// Colors and their meanings, below the title: memory if it is used, the rails, and combining if asked
// for.
class Legend {
 public:
  Legend(const Simulation& simulation, const Cluster& cluster, double width, bool with_combining);
  // What its lines take beyond the first.
  [[nodiscard]] double further_height() const;
  void draw(Canvas& svg) const;

 private:
  struct Entry {
    std::string_view color;
    std::string words;
    Point at;
  };
  void add(std::string_view color, std::string words);

  double width_;
  Point next_;
  std::vector<Entry> entries_;
};

}  // namespace weft::simulator
