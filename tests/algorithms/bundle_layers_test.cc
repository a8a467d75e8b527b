// bundle_layers: consecutive layers, of one kind, and no colayer that could be smaller.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/algorithms/algorithms.h"

namespace weft {
namespace {

using Sizes = std::vector<LayerSize>;

std::vector<std::size_t> sizes_of(const Sizes& layers, const std::vector<int>& colayer_of,
                                  int colayers) {
  std::vector<std::size_t> sizes(static_cast<std::size_t>(colayers));
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    sizes[static_cast<std::size_t>(colayer_of[layer])] += layers[layer].count;
  return sizes;
}

// The smallest largest colayer, by all ways to cut.
std::size_t best(const Sizes& layers, std::size_t from, int colayers) {
  std::size_t sum = 0, found = SIZE_MAX;
  for (std::size_t to = from; to < layers.size(); ++to) {
    sum += layers[to].count;
    if (to + 1 == layers.size()) return std::min(found, sum);
    if (colayers > 1) found = std::min(found, std::max(sum, best(layers, to + 1, colayers - 1)));
  }
  return found;
}

TEST(BundleLayers, TheLargestColayerIsAsSmallAsCanBe) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    Sizes layers(1 + random() % 9);
    for (LayerSize& layer : layers) layer.count = random() % 20;
    const int colayers = 1 + static_cast<int>(random() % layers.size());
    const Result<std::vector<int>> made = bundle_layers(layers, colayers);
    ASSERT_TRUE(made.ok());
    EXPECT_EQ(made->front(), 0);
    EXPECT_EQ(made->back(), colayers - 1);
    for (std::size_t layer = 1; layer < layers.size(); ++layer) {
      const int step = (*made)[layer] - (*made)[layer - 1];
      EXPECT_TRUE(step == 0 || step == 1);
    }
    EXPECT_EQ(std::ranges::max(sizes_of(layers, *made, colayers)), best(layers, 0, colayers));
  }
}

// VGG-19 in the paper's order: three fully connected layers, then convolutions in blocks.
TEST(BundleLayers, KindsAreKeptApart) {
  const Sizes layers{{4'096'000, 1}, {16'777'216, 1}, {102'760'448, 1}, {2'359'296, 0},
                     {2'359'296, 0}, {2'359'296, 0},  {1'179'648, 0},   {589'824, 0}};
  EXPECT_EQ(bundle_layers(layers, 2).value(), (std::vector{0, 0, 0, 1, 1, 1, 1, 1}));
  const std::vector<int> four = bundle_layers(layers, 4).value();
  EXPECT_NE(four[2], four[3]);
  EXPECT_EQ(four.back(), 3);
  // One colayer for two kinds.
  EXPECT_EQ(bundle_layers(layers, 1).value(), std::vector<int>(8, 0));
}

TEST(BundleLayers, NoColayerIsEmpty) {
  const Sizes layers{{5, 0}, {5, 0}};
  EXPECT_EQ(bundle_layers(layers, 3).status().text(), "bundle_layers: 3 colayers of 2 layers");
  EXPECT_EQ(bundle_layers(layers, 0).status().text(), "bundle_layers: 0 colayers of 2 layers");
  EXPECT_EQ(bundle_layers({}, 1).status().code(), Code::invalid_argument);
  EXPECT_EQ(bundle_layers(layers, 2).value(), (std::vector{0, 1}));
}

}  // namespace
}  // namespace weft
