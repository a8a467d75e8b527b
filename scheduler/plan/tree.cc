// tree: see the header.
#include "scheduler/plan/tree.h"

#include <algorithm>
#include <bit>

namespace weft {
namespace {

constexpr std::size_t kPieceBytes = 256 << 10;
constexpr std::size_t kMostPieces = 16;

}  // namespace

Tree binomial_tree(Rank rank, int size, Rank root) {
  const int from_root = (rank + size - root) % size;
  const auto at = [&](int v) { return (v + root) % size; };
  const int all = static_cast<int>(std::bit_ceil(static_cast<unsigned>(size)));
  const int lowest = from_root == 0 ? all : from_root & -from_root;
  Tree tree;
  if (from_root != 0) tree.parent = at(from_root - lowest);
  for (int hop = lowest / 2; hop > 0; hop /= 2) {
    if (from_root + hop < size) tree.children.push_back(at(from_root + hop));
  }
  return tree;
}

std::uint32_t tree_pieces(std::size_t bytes) {
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(bytes / kPieceBytes, 1, kMostPieces));
}

}  // namespace weft
