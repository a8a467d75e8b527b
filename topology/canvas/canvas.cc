// canvas: one element a call.
#include "topology/canvas/canvas.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "topology/svg/svg.h"

namespace weft {
namespace {

// Eight hues, the same darker, and the same lighter.
constexpr std::array<std::string_view, 24> kColors = {
    "#2f6db3", "#3a9a5b", "#c44e6a", "#7a5fb5", "#e07b39", "#4fb0c6", "#8c564b", "#6b7a2f",
    "#1a3c62", "#205532", "#6c2b3a", "#433464", "#7b441f", "#2b616d", "#4d2f29", "#3b431a",
    "#8dafd5", "#93c7a5", "#df9ead", "#b6a7d6", "#eeb692", "#9ed4e0", "#c0a29c", "#aeb68d"};
constexpr std::size_t kHues = 8;
// As many for each shade that no two numbers below 96 have both in common.
constexpr std::array<std::string_view, 4> kDashes = {"", "7 3", "2 3", "9 3 2 3"};

std::string dashed(std::string_view dashes) {
  return dashes.empty() ? "" : fmt::format(R"( stroke-dasharray="{}")", dashes);
}

}  // namespace

std::string_view line_color(int number) {
  return kColors[static_cast<std::size_t>(number) % kColors.size()];
}

std::string_view line_dashes(int number) {
  return kDashes[static_cast<std::size_t>(number) / kHues % kDashes.size()];
}

void Canvas::rect(Point corner, double width, double height, std::string_view fill, double opacity,
                  std::string_view hover) {
  const std::string faint =
      opacity < 1 ? fmt::format(R"( fill-opacity="{:.2f}")", opacity) : std::string();
  body_ += svg::rect({corner.x, corner.y, width, height},
                     fmt::format(R"(fill="{}"{})", fill, faint), hover);
}

void Canvas::line(Point from, Point to, std::string_view stroke, double width,
                  std::string_view dashes) {
  body_ += svg::line(
      from.x, from.y, to.x, to.y,
      fmt::format(R"(stroke="{}" stroke-width="{:.2f}"{})", stroke, width, dashed(dashes)));
}

void Canvas::polyline(const std::vector<Point>& points, std::string_view stroke, double width,
                      std::string_view dashes) {
  std::string way;
  for (const Point& point : points)
    way += fmt::format("{}{:.2f},{:.2f}", way.empty() ? 'M' : 'L', point.x, point.y);
  body_ += svg::path(
      way, fmt::format(R"(fill="none" stroke="{}" stroke-width="{:.2f}" stroke-linejoin="round"{})",
                       stroke, width, dashed(dashes)));
}

void Canvas::arrow(Point from, Point to, std::string_view stroke, double width,
                   std::string_view hover) {
  const double length = std::hypot(to.x - from.x, to.y - from.y);
  if (length == 0) return;
  const double head = 3 + 2 * width;
  const double half = 0.4 * head;
  const Point along{(to.x - from.x) / length, (to.y - from.y) / length};
  const Point neck{to.x - head * along.x, to.y - head * along.y};
  const std::string way =
      fmt::format("M{:.2f},{:.2f} L{:.2f},{:.2f} M{:.2f},{:.2f} L{:.2f},{:.2f} L{:.2f},{:.2f} z",
                  from.x, from.y, neck.x, neck.y, to.x, to.y, neck.x - half * along.y,
                  neck.y + half * along.x, neck.x + half * along.y, neck.y - half * along.x);
  body_ += svg::path(
      way, fmt::format(R"(stroke="{0}" fill="{0}" stroke-width="{1:.2f}")", stroke, width), hover);
}

void Canvas::disc(Point center, double radius, std::string_view fill, std::string_view hover) {
  body_ += svg::circle(center.x, center.y, radius, fmt::format(R"(fill="{}")", fill), hover);
}

void Canvas::text(Point at, std::string_view words, double size, Anchor anchor,
                  std::string_view fill, bool bold) {
  constexpr std::array<std::string_view, 3> kAnchors = {"start", "middle", "end"};
  const std::string look = fmt::format(R"(font-size="{:.1f}" text-anchor="{}" fill="{}"{})", size,
                                       kAnchors[static_cast<std::size_t>(anchor)], fill,
                                       bold ? R"( font-weight="bold")" : "");
  body_ += svg::text(at.x, at.y, look, words);
}

void Canvas::title(std::string_view words) {
  constexpr double kMargin = 16;
  constexpr double kSize = 15, kLeast = 9;
  constexpr double kBold = 1.1;  // times as wide
  const svg::Fitted shown = svg::fitted(words, kSize, (width_ - 2 * kMargin) / kBold, kLeast);
  text({kMargin, 25}, shown.content, shown.size, Anchor::start, "#222", true);
}

std::string Canvas::document() const {
  return svg::document({0, 0, width_, height_}, body_);
}

std::vector<double> round_steps(double most, int about) {
  if (!(most > 0)) return {0};
  const double rough = most / about;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (rough <= factor * power) step = factor * power;
  std::vector<double> steps;
  for (int i = 0; i * step <= most * (1 + 1e-9); ++i) steps.push_back(i * step);
  return steps;
}

std::string us_text(double us) {
  if (us == 0) return "0";
  if (us < 1) return fmt::format("{:.3g} ns", us * 1e3);
  if (us < 1e3) return fmt::format("{:.3g} us", us);
  if (us < 1e6) return fmt::format("{:.3g} ms", us / 1e3);
  return us < 1e9 ? fmt::format("{:.3g} s", us / 1e6) : fmt::format("{:.0f} s", us / 1e6);
}

}  // namespace weft
