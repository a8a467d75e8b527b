// The elements of a graph's drawing.
#include <gtest/gtest.h>

#include "tools/weft/graph/draw.h"

namespace weft {
namespace {

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(GraphDrawing, HasOneDiscPerRankAndOneCurvePerConnectedPair) {
  const std::string ring = to_svg(ring_graph(8).value());
  EXPECT_EQ(count(ring, "<circle"), 8);
  EXPECT_EQ(count(ring, "marker-end"), 8);
  EXPECT_EQ(count(ring, "marker-start"), 8);
  const std::string directed = to_svg(ring_graph(8, RingStyle::previous).value());
  EXPECT_EQ(count(directed, "marker-end"), 8);
  EXPECT_EQ(count(directed, "marker-start"), 0);
  EXPECT_EQ(count(directed, "<title>0 -&gt; 7: 0.5</title>"), 1);
}

TEST(GraphDrawing, EscapesTheName) {
  const std::string svg = to_svg(ring_graph(2).value().renamed("<a> & b"));
  EXPECT_EQ(count(svg, "&lt;a&gt; &amp; b, 2 ranks, 2 edges"), 1);
}

TEST(GraphDrawing, OneRankIsADiscAlone) {
  const std::string svg = to_svg(ring_graph(1).value());
  EXPECT_EQ(count(svg, "<circle"), 1);
  EXPECT_EQ(count(svg, "marker-end"), 0);
  EXPECT_EQ(count(svg, "\"nan"), 0);
}

}  // namespace
}  // namespace weft
