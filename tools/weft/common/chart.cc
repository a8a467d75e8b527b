// The axes, and names beside the ends of curves.
#include "tools/weft/common/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace weft {
namespace {

constexpr double kLeft = 80;
constexpr double kTop = 64;
constexpr double kWidth = 560;
constexpr double kHeight = 360;
constexpr double kLeastLegend = 270, kLetter = 7;
constexpr double kSample = 24;  // of a curve, before its name

// The name of a curve, beside its end.
struct Name {
  double y = 0;
  std::size_t curve = 0;
  friend auto operator<=>(const Name&, const Name&) = default;
};

struct Axis {
  double least = 1;
  double most = 10;
  bool is_linear = false;
  [[nodiscard]] double part(double value) const {
    if (is_linear) return (value - least) / (most - least);
    return most > least ? std::log(value / least) / std::log(most / least) : 0.5;
  }
};

class Chart {
 public:
  Chart(std::vector<Curve> curves, const ChartText& text)
      : curves_(std::move(curves)), text_(text) {
    for (Curve& curve : curves_) std::ranges::sort(curve.values, {}, &Point::x);
    find_axes();
  }

  [[nodiscard]] std::string draw() const {
    const std::vector<Name> names = place_names();
    const double lowest = names.empty() ? 0 : names.back().y;
    Canvas svg(kLeft + kWidth + legend_width(), std::max(kTop + kHeight + 60, lowest + 16));
    svg.title(text_.title);
    draw_grid(svg);
    // The first lies above the others.
    for (std::size_t i = curves_.size(); i-- > 0;) draw_curve(svg, i);
    draw_names(svg, names);
    return svg.document();
  }

 private:
  void find_axes() {
    double x[2] = {HUGE_VAL, 0}, y[2] = {HUGE_VAL, 0};
    for (const Curve& curve : curves_) {
      for (const Point& value : curve.values) {
        x[0] = std::min(x[0], value.x), x[1] = std::max(x[1], value.x);
        y[0] = std::min(y[0], value.y), y[1] = std::max(y[1], value.y);
      }
    }
    if (x[1] == 0) return;
    x_ = {x[0], x[1]};
    y_ = {y[0] / 1.3, y[1] * 1.3};
    // Values within a factor of five of each other are drawn on a linear axis that begins at zero.
    if (y[1] < 5 * y[0]) y_ = {0, y[1] * 1.15, true};
  }

  [[nodiscard]] Point place(const Point& value) const {
    return {kLeft + kWidth * x_.part(value.x), kTop + kHeight * (1 - y_.part(value.y))};
  }

  void draw_grid(Canvas& svg) const {
    std::set<double> columns;
    for (const Curve& curve : curves_)
      for (const Point& value : curve.values) columns.insert(value.x);
    double last = -100;
    for (const double x : columns) {
      const double at = place({x, y_.least}).x;
      svg.line({at, kTop}, {at, kTop + kHeight}, "#eef0f2");
      if (at - last < 34) continue;  // no room for its number
      last = at;
      svg.text({at, kTop + kHeight + 16}, text_.x_text(x), 11, Anchor::middle, "#555");
    }
    for (const double level : levels()) {
      const double y = place({x_.least, level}).y;
      svg.line({kLeft, y}, {kLeft + kWidth, y}, "#e4e7eb");
      svg.text({kLeft - 8, y + 4}, text_.y_text(level), 11, Anchor::end, "#555");
    }
    svg.line({kLeft, kTop}, {kLeft, kTop + kHeight}, "#8a929b");
    svg.line({kLeft, kTop + kHeight}, {kLeft + kWidth, kTop + kHeight}, "#8a929b");
    svg.text({kLeft + kWidth / 2, kTop + kHeight + 40}, text_.x_label, 12, Anchor::middle);
    svg.text({16, kTop - 12}, text_.y_label, 12);
  }

  [[nodiscard]] std::vector<double> levels() const {
    if (y_.is_linear) return round_steps(y_.most, 6);
    std::vector<double> all;
    for (double power = std::pow(10, std::floor(std::log10(y_.least))); power <= y_.most;
         power *= 10) {
      for (const int digit : {1, 2, 5}) {
        const double level = power * digit;
        if (level >= y_.least && level <= y_.most) all.push_back(level);
      }
    }
    return all;
  }

  [[nodiscard]] double legend_width() const {
    std::size_t longest = 0;
    for (const Curve& curve : curves_) longest = std::max(longest, curve.label.size());
    return std::max(kLeastLegend, kLetter * static_cast<double>(longest) + kSample + 29);
  }

  [[nodiscard]] std::string_view color_of(std::size_t number) const {
    return curves_[number].is_reference ? "#8a929b" : line_color(static_cast<int>(number));
  }

  [[nodiscard]] std::string_view dashes_of(std::size_t number) const {
    return curves_[number].is_reference ? "" : line_dashes(static_cast<int>(number));
  }

  void draw_curve(Canvas& svg, std::size_t number) const {
    const Curve& curve = curves_[number];
    const std::string_view color = color_of(number);
    std::vector<Point> points;
    for (const Point& value : curve.values) points.push_back(place(value));
    svg.polyline(points, color, 2, dashes_of(number));
    for (std::size_t i = 0; i < points.size(); ++i) {
      svg.disc(points[i], 3, color,
               fmt::format("{}, {}: {}", curve.label, static_cast<std::size_t>(curve.values[i].x),
                           text_.y_text(curve.values[i].y)));
    }
  }

  // From the top down, each name as near to the end of its curve as the names above it permit. The
  // names of many curves take more room than the axes.
  [[nodiscard]] std::vector<Name> place_names() const {
    std::vector<Name> names;
    for (std::size_t i = 0; i < curves_.size(); ++i)
      if (!curves_[i].values.empty()) names.push_back({place(curves_[i].values.back()).y, i});
    std::ranges::sort(names);
    double free_from = kTop;
    for (Name& name : names) {
      name.y = std::max(name.y, free_from);
      free_from = name.y + 15;
    }
    return names;
  }

  void draw_names(Canvas& svg, const std::vector<Name>& names) const {
    for (const auto& [y, number] : names) {
      const double x = kLeft + kWidth + 12;
      svg.line({x, y}, {x + kSample, y}, color_of(number), 2, dashes_of(number));
      svg.text({x + kSample + 5, y + 4}, curves_[number].label, 12, Anchor::start,
               color_of(number));
    }
  }

  std::vector<Curve> curves_;
  ChartText text_;
  Axis x_;
  Axis y_;
};

}  // namespace

std::string draw_chart(std::vector<Curve> curves, const ChartText& text) {
  return Chart(std::move(curves), text).draw();
}

}  // namespace weft
