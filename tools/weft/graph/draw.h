// Draws a graph as one SVG document. Ranks are on a circle, clockwise from the top. An edge in one
// direction is a curve with one arrow head; edges in both directions are one curve with two.
// Hovering over an edge shows its weight. Readable up to about 64 ranks of moderate degree. The
// name may contain any characters; they are escaped.
#pragma once

#include <weft/graph.h>

#include <string>

namespace weft {

[[nodiscard]] std::string to_svg(const Graph& graph);

}  // namespace weft
