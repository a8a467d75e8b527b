// Elements of drawings, for names of any bytes.
#include "topology/svg/svg.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Svg, MarkupInNamesIsText) {
  EXPECT_EQ(svg::escaped("<a b=\"c\"> & d"), "&lt;a b=&quot;c&quot;&gt; &amp; d");
  EXPECT_EQ(svg::text(1, 2, "class=\"x\"", "<>"),
            "<text x=\"1.0\" y=\"2.0\" class=\"x\">&lt;&gt;</text>\n");
  EXPECT_EQ(svg::rect({0, 0, 1, 1}, "rx=\"2\"", "&"),
            "<rect x=\"0.0\" y=\"0.0\" width=\"1.0\" height=\"1.0\" rx=\"2\"><title>&amp;</title>"
            "</rect>\n");
}

TEST(Svg, WhatNoXmlMayHaveIsAQuestionMark) {
  EXPECT_EQ(svg::escaped("a\x1b[1m\n"), "a?[1m?");
  EXPECT_EQ(svg::escaped("µ → 😀"), "µ → 😀");
  EXPECT_EQ(svg::escaped("\xff|\xc3"), "?|?");                 // no UTF-8, and cut short
  EXPECT_EQ(svg::escaped("\xc0\xaf|\xed\xa0\x80"), "??|???");  // overlong, surrogate
}

TEST(Svg, TextThatDoesNotFitIsSmallerAndThenCut) {
  const svg::Fitted fits = svg::fitted("mlx5_0", 12, 100);
  EXPECT_EQ(fits.content, "mlx5_0");
  EXPECT_EQ(fits.size, 12);
  const svg::Fitted smaller = svg::fitted("mlx5_bond_0:1 of a rack", 12, 120);
  EXPECT_EQ(smaller.content, "mlx5_bond_0:1 of a rack");
  EXPECT_LT(smaller.size, 12);
  EXPECT_LE(svg::text_width(smaller.content, smaller.size), 120.001);
  for (const std::string_view words : {"an interface with a very long name", "ééééééééééééééé"}) {
    const svg::Fitted cut = svg::fitted(words, 12, 40);
    EXPECT_EQ(cut.size, 7);
    EXPECT_TRUE(cut.content.ends_with("…"));
    EXPECT_LE(svg::text_width(cut.content, cut.size), 40 + 7);
    EXPECT_EQ(svg::escaped(cut.content).find('?'), std::string::npos);  // whole characters
  }
}

}  // namespace
}  // namespace weft
