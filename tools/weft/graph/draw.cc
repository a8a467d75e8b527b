// The SVG drawing: geometry first, then one element per edge and per rank.
#include "tools/weft/graph/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "topology/svg/svg.h"

namespace weft {
namespace {

struct Point {
  double x = 0;
  double y = 0;
};

// Sizes in pixels, chosen from the number of ranks and edges so that neither discs nor lines clot.
struct Drawing {
  double side = 0;
  double circle = 0;
  double disc = 0;
  double line = 0;
  double opacity = 0;
  int size = 1;
};

Drawing drawing_of(const Graph& graph) {
  constexpr double kMargin = 40;
  Drawing drawing;
  drawing.size = graph.size();
  drawing.side = std::clamp(300.0 + 12.0 * graph.size(), 360.0, 1080.0);
  drawing.circle = drawing.side / 2 - kMargin;
  const double spacing = 2 * std::numbers::pi * drawing.circle / graph.size();
  drawing.disc = std::clamp(0.3 * spacing, 4.0, 18.0);
  const double per_rank = static_cast<double>(graph.edge_count()) / graph.size();
  drawing.line = std::clamp(3.0 / std::sqrt(per_rank + 1), 0.5, 1.6);
  drawing.opacity = std::clamp(4.0 / (per_rank + 1), 0.25, 0.85);
  return drawing;
}

Point center_of(const Drawing& drawing, Rank rank) {
  const double angle = 2 * std::numbers::pi * rank / drawing.size - std::numbers::pi / 2;
  return {drawing.side / 2 + drawing.circle * std::cos(angle),
          drawing.side / 2 + drawing.circle * std::sin(angle)};
}

// The point on the way from a to b that is `distance` from a.
Point towards(Point a, Point b, double distance) {
  const double part = distance / std::hypot(b.x - a.x, b.y - a.y);
  return {a.x + part * (b.x - a.x), a.y + part * (b.y - a.y)};
}

// Where the curve from a to b bends to: inwards, so that an edge to the rank after next passes
// beside the disc between them. The longer the edge, the deeper, but a diameter is straight.
Point bend(const Drawing& drawing, Point a, Point b) {
  const Point center{drawing.side / 2, drawing.side / 2};
  const Point middle{(a.x + b.x) / 2, (a.y + b.y) / 2};
  const double chord = std::hypot(b.x - a.x, b.y - a.y);
  const double depth = 0.45 * chord * (1 - chord / (2 * drawing.circle));
  constexpr double kOnePixel = 1;
  return depth < kOnePixel ? middle : towards(middle, center, depth);
}

// One curve from rim to rim. `back` is the weight of the reverse edge, 0 when there is none.
std::string edge_element(const Drawing& drawing, const Edge& edge, double back) {
  const Point from = center_of(drawing, edge.from);
  const Point to = center_of(drawing, edge.to);
  const Point through = bend(drawing, from, to);
  const Point start = towards(from, through, drawing.disc + 1);
  const Point end = towards(to, through, drawing.disc + 1);
  std::string title = fmt::format("{} -> {}: {:.4g}", edge.from, edge.to, edge.weight);
  if (back != 0) title += fmt::format(", {} -> {}: {:.4g}", edge.to, edge.from, back);
  const std::string curve = fmt::format("M{:.1f},{:.1f} Q{:.1f},{:.1f} {:.1f},{:.1f}", start.x,
                                        start.y, through.x, through.y, end.x, end.y);
  return svg::path(curve,
                   back != 0 ? "marker-end=\"url(#head)\" marker-start=\"url(#head)\""
                             : "marker-end=\"url(#head)\"",
                   title);
}

std::string rank_element(const Drawing& drawing, const Graph& graph, Rank rank) {
  const Point center = center_of(drawing, rank);
  return fmt::format(
             "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"><title>rank {}, self weight "
             "{:.4g}</title></circle>\n",
             center.x, center.y, drawing.disc, rank, graph.self_weight(rank)) +
         svg::text(center.x, center.y, "dy=\"0.35em\"", std::to_string(rank));
}

std::string opening(const Drawing& drawing, const Graph& graph) {
  const std::string head = fmt::format(
      "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"{0:.1f}\" "
      "markerHeight=\"{0:.1f}\" markerUnits=\"userSpaceOnUse\" orient=\"auto-start-reverse\">"
      "<path d=\"M0,0 L8,4 L0,8 z\" fill=\"#1f4e79\"/></marker></defs>\n",
      std::clamp(drawing.disc * 0.5, 4.0, 9.0));
  const svg::Fitted title = svg::fitted(
      fmt::format("{}, {} ranks, {} edges", graph.name(), graph.size(), graph.edge_count()), 16,
      drawing.side - 8);
  return head + svg::text(drawing.side / 2, 0,
                          fmt::format("font-size=\"{:.1f}\" text-anchor=\"middle\"", title.size),
                          title.content);
}

}  // namespace

std::string to_svg(const Graph& graph) {
  constexpr double kTitleHeight = 30;
  const Drawing drawing = drawing_of(graph);
  std::string edges, ranks;
  for (const Edge& edge : graph.edges()) {
    const double back = graph.weight(edge.from, edge.to);
    if (back != 0 && edge.from > edge.to) continue;  // drawn with its reverse
    edges += edge_element(drawing, edge, back);
  }
  for (Rank rank = 0; rank < graph.size(); ++rank) ranks += rank_element(drawing, graph, rank);
  const std::string lines = fmt::format(
      "fill=\"none\" stroke=\"#1f4e79\" stroke-width=\"{:.2f}\" stroke-opacity=\"{:.2f}\"",
      drawing.line, drawing.opacity);
  const std::string labels =
      fmt::format("font-size=\"{:.1f}\" text-anchor=\"middle\"", drawing.disc * 0.95);
  return svg::document({0, -kTitleHeight, drawing.side, drawing.side + kTitleHeight},
                       "<style>circle { fill: #f4b942 }</style>\n" + opening(drawing, graph) +
                           svg::group(lines, edges) + svg::group(labels, ranks));
}

}  // namespace weft
