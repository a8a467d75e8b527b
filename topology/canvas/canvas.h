// canvas: a drawing that grows element by element, and what axes need: what the drawers of runs and
// of curves share. An SVG document in the end.
//
// Coordinates are pixels from the upper left corner. Any text may be given; it is escaped. A value
// of one thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

struct Point {
  double x = 0;
  double y = 0;
};

enum class Anchor { start, middle, end };

// A color that differs from those of the next 23 numbers, and from those of the next seven also to most
// color-blind eyes.
[[nodiscard]] std::string_view line_color(int number);
// The dashes of a line ("" for a whole one). Together with the color they tell 96 numbers apart.
[[nodiscard]] std::string_view line_dashes(int number);

class Canvas {
 public:
  Canvas(double width, double height) : width_(width), height_(height) {}

  void rect(Point corner, double width, double height, std::string_view fill, double opacity = 1,
            std::string_view hover = {});
  void line(Point from, Point to, std::string_view stroke, double width = 1,
            std::string_view dashes = {});
  void polyline(const std::vector<Point>& points, std::string_view stroke, double width = 2,
                std::string_view dashes = {});
  // A line with a head.
  void arrow(Point from, Point to, std::string_view stroke, double width = 1,
             std::string_view hover = {});
  void disc(Point center, double radius, std::string_view fill, std::string_view hover = {});
  void text(Point at, std::string_view words, double size = 11, Anchor anchor = Anchor::start,
            std::string_view fill = "#333", bool bold = false);
  // Above the rest, as large as the width permits.
  void title(std::string_view words);
  [[nodiscard]] double width() const { return width_; }
  [[nodiscard]] std::string document() const;

 private:
  double width_;
  double height_;
  std::string body_;
};

// About so many round numbers from 0 to `most` for an axis, 0 included.
[[nodiscard]] std::vector<double> round_steps(double most, int about);
// "850 ns", "1.5 us", "20 ms", "3 s": a time in microseconds for people.
[[nodiscard]] std::string us_text(double us);

}  // namespace weft
