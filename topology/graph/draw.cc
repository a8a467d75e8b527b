// The SVG drawing: geometry first, then one element per edge and per rank.
#include <fmt/format.h>
#include <weft/graph/draw.h>

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
struct Layout {
  double side = 0;
  double circle = 0;
  double disc = 0;
  double line = 0;
  double opacity = 0;
  int size = 1;
};

Layout layout_of(const Graph& graph) {
  constexpr double kMargin = 40;
  Layout layout;
  layout.size = graph.size();
  layout.side = std::clamp(300.0 + 12.0 * graph.size(), 360.0, 1080.0);
  layout.circle = layout.side / 2 - kMargin;
  const double spacing = 2 * std::numbers::pi * layout.circle / graph.size();
  layout.disc = std::clamp(0.3 * spacing, 4.0, 18.0);
  const double per_rank = static_cast<double>(graph.edge_count()) / graph.size();
  layout.line = std::clamp(3.0 / std::sqrt(per_rank + 1), 0.5, 1.6);
  layout.opacity = std::clamp(4.0 / (per_rank + 1), 0.25, 0.85);
  return layout;
}

Point center_of(const Layout& layout, Rank rank) {
  const double angle = 2 * std::numbers::pi * rank / layout.size - std::numbers::pi / 2;
  return {layout.side / 2 + layout.circle * std::cos(angle),
          layout.side / 2 + layout.circle * std::sin(angle)};
}

// The point on the way from a to b that is `distance` from a.
Point towards(Point a, Point b, double distance) {
  const double part = distance / std::hypot(b.x - a.x, b.y - a.y);
  return {a.x + part * (b.x - a.x), a.y + part * (b.y - a.y)};
}

// Where the curve from a to b bends to: inwards, so that an edge to the rank after next passes
// beside the disc between them. The longer the edge, the deeper, but a diameter is straight.
Point bend(const Layout& layout, Point a, Point b) {
  const Point center{layout.side / 2, layout.side / 2};
  const Point middle{(a.x + b.x) / 2, (a.y + b.y) / 2};
  const double chord = std::hypot(b.x - a.x, b.y - a.y);
  const double depth = 0.45 * chord * (1 - chord / (2 * layout.circle));
  constexpr double kOnePixel = 1;
  return depth < kOnePixel ? middle : towards(middle, center, depth);
}

// One curve from rim to rim. `back` is the weight of the reverse edge, 0 when there is none.
std::string edge_element(const Layout& layout, const Edge& edge, double back) {
  const Point from = center_of(layout, edge.from);
  const Point to = center_of(layout, edge.to);
  const Point through = bend(layout, from, to);
  const Point start = towards(from, through, layout.disc + 1);
  const Point end = towards(to, through, layout.disc + 1);
  std::string title = fmt::format("{} -> {}: {:.4g}", edge.from, edge.to, edge.weight);
  if (back != 0) title += fmt::format(", {} -> {}: {:.4g}", edge.to, edge.from, back);
  const std::string curve = fmt::format("M{:.1f},{:.1f} Q{:.1f},{:.1f} {:.1f},{:.1f}", start.x,
                                        start.y, through.x, through.y, end.x, end.y);
  return svg::path(curve,
                   back != 0 ? "marker-end=\"url(#head)\" marker-start=\"url(#head)\""
                             : "marker-end=\"url(#head)\"",
                   title);
}

std::string rank_element(const Layout& layout, const Graph& graph, Rank rank) {
  const Point center = center_of(layout, rank);
  return fmt::format(
             "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"><title>rank {}, self weight "
             "{:.4g}</title></circle>\n",
             center.x, center.y, layout.disc, rank, graph.self_weight(rank)) +
         svg::text(center.x, center.y, "dy=\"0.35em\"", std::to_string(rank));
}

std::string opening(const Layout& layout, const Graph& graph) {
  const std::string head = fmt::format(
      "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"{0:.1f}\" "
      "markerHeight=\"{0:.1f}\" markerUnits=\"userSpaceOnUse\" orient=\"auto-start-reverse\">"
      "<path d=\"M0,0 L8,4 L0,8 z\" fill=\"#1f4e79\"/></marker></defs>\n",
      std::clamp(layout.disc * 0.5, 4.0, 9.0));
  const svg::Fitted title = svg::fitted(
      fmt::format("{}, {} ranks, {} edges", graph.name(), graph.size(), graph.edge_count()), 16,
      layout.side - 8);
  return head + svg::text(layout.side / 2, 0,
                          fmt::format("font-size=\"{:.1f}\" text-anchor=\"middle\"", title.size),
                          title.content);
}

}  // namespace

std::string to_svg(const Graph& graph) {
  constexpr double kTitleHeight = 30;
  const Layout layout = layout_of(graph);
  std::string edges, ranks;
  for (const Edge& edge : graph.edges()) {
    const double back = graph.weight(edge.from, edge.to);
    if (back != 0 && edge.from > edge.to) continue;  // drawn with its reverse
    edges += edge_element(layout, edge, back);
  }
  for (Rank rank = 0; rank < graph.size(); ++rank) ranks += rank_element(layout, graph, rank);
  const std::string lines = fmt::format(
      "fill=\"none\" stroke=\"#1f4e79\" stroke-width=\"{:.2f}\" stroke-opacity=\"{:.2f}\"",
      layout.line, layout.opacity);
  const std::string labels =
      fmt::format("font-size=\"{:.1f}\" text-anchor=\"middle\"", layout.disc * 0.95);
  return svg::document({0, -kTitleHeight, layout.side, layout.side + kTitleHeight},
                       "<style>circle { fill: #f4b942 }</style>\n" + opening(layout, graph) +
                           svg::group(lines, edges) + svg::group(labels, ranks));
}

}  // namespace weft
