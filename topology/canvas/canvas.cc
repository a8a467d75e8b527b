// canvas: one element a call.
#include "topology/canvas/canvas.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace weft {
namespace {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string closed(std::string_view element, std::string_view hover) {
  if (hover.empty()) return "/>\n";
  return fmt::format("><title>{}</title></{}>\n", escaped(hover), element);
}

}  // namespace

std::string_view line_color(int number) {
  constexpr std::array<std::string_view, 8> kColors = {"#2f6db3", "#3a9a5b", "#c44e6a", "#7a5fb5",
                                                       "#e07b39", "#4fb0c6", "#8c564b", "#6b7a2f"};
  return kColors[static_cast<std::size_t>(number) % kColors.size()];
}

void Canvas::rect(Point corner, double width, double height, std::string_view fill, double opacity,
               std::string_view hover) {
  body_ += fmt::format(
      R"(<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" fill="{}"{}{})", corner.x,
      corner.y, width, height, fill,
      opacity < 1 ? fmt::format(R"( fill-opacity="{:.2f}")", opacity) : "", closed("rect", hover));
}

void Canvas::line(Point from, Point to, std::string_view stroke, double width,
               std::string_view dashes) {
  body_ += fmt::format(
      R"(<line x1="{:.2f}" y1="{:.2f}" x2="{:.2f}" y2="{:.2f}" stroke="{}" stroke-width="{:.2f}"{}/>)"
      "\n",
      from.x, from.y, to.x, to.y, stroke, width,
      dashes.empty() ? "" : fmt::format(R"( stroke-dasharray="{}")", dashes));
}

void Canvas::polyline(const std::vector<Point>& points, std::string_view stroke, double width) {
  body_ += "<polyline points=\"";
  for (const Point& point : points) body_ += fmt::format("{:.2f},{:.2f} ", point.x, point.y);
  body_ +=
      fmt::format(R"(" fill="none" stroke="{}" stroke-width="{:.2f}" stroke-linejoin="round"/>)"
                  "\n",
                  stroke, width);
}

void Canvas::arrow(Point from, Point to, std::string_view stroke, double width,
                std::string_view hover) {
  const double length = std::hypot(to.x - from.x, to.y - from.y);
  if (length == 0) return;
  const double head = 3 + 2 * width;
  const Point along{(to.x - from.x) / length, (to.y - from.y) / length};
  const Point neck{to.x - head * along.x, to.y - head * along.y};
  const double half = 0.4 * head;
  body_ += fmt::format(
      R"(<path d="M{:.2f},{:.2f} L{:.2f},{:.2f} M{:.2f},{:.2f} L{:.2f},{:.2f} L{:.2f},{:.2f} z" )"
      R"(stroke="{}" fill="{}" stroke-width="{:.2f}"{})",
      from.x, from.y, neck.x, neck.y, to.x, to.y, neck.x - half * along.y, neck.y + half * along.x,
      neck.x + half * along.y, neck.y - half * along.x, stroke, stroke, width,
      closed("path", hover));
}

void Canvas::disc(Point center, double radius, std::string_view fill, std::string_view hover) {
  body_ += fmt::format(R"(<circle cx="{:.2f}" cy="{:.2f}" r="{:.2f}" fill="{}"{})", center.x,
                       center.y, radius, fill, closed("circle", hover));
}

void Canvas::text(Point at, std::string_view words, double size, Anchor anchor, std::string_view fill,
               bool bold) {
  constexpr std::array<std::string_view, 3> kAnchors = {"start", "middle", "end"};
  body_ += fmt::format(
      R"(<text x="{:.2f}" y="{:.2f}" font-size="{:.1f}" text-anchor="{}" fill="{}"{}>{}</text>)"
      "\n",
      at.x, at.y, size, kAnchors[static_cast<std::size_t>(anchor)], fill,
      bold ? R"( font-weight="bold")" : "", escaped(words));
}

std::string Canvas::document() const {
  return fmt::format(
             R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" )"
             R"(height="{1:.0f}" font-family="sans-serif">)"
             "\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
             width_, height_) +
         body_ + "</svg>\n";
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
