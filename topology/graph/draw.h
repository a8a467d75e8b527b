// A drawing of a graph as one SVG document: ranks on a circle, clockwise from the top; an edge in
// one direction is a curve with one arrow head, edges in both directions one curve with two.
// Hovering shows an edge's weight. Readable to about 64 ranks of moderate degree. Takes any name
// (escaped).
#pragma once

#include <string>

#include "topology/graph/digraph.h"

namespace weft {

[[nodiscard]] std::string to_svg(const Graph& graph);

}  // namespace weft
