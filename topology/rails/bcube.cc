// All graphs whose edges join ranks that differ in one digit, and that have as many edges as there
// are such pairs, are BCubes; how the graph was made does not matter.
#include "topology/rails/bcube.h"

#include <algorithm>

namespace weft {
namespace {

// The number of digits that n has more than one of in this base, as a power; 0 if it is none.
int digits_of(int n, int base) {
  int digits = 0;
  for (; n % base == 0; n /= base) ++digits;
  return n == 1 ? digits : 0;
}

bool is_bcube(const Graph& graph, BcubeShape shape) {
  const auto degree =
      static_cast<std::size_t>(shape.digits) * static_cast<std::size_t>(shape.base - 1);
  for (Rank rank = 0; rank < graph.size(); ++rank) {
    const auto peers = graph.in_edges(rank);
    if (peers.size() != degree) return false;
    const bool all = std::ranges::all_of(
        peers, [&](const Peer& peer) { return bcube_level(shape, rank, peer.rank) >= 0; });
    if (!all) return false;
  }
  return true;
}

}  // namespace

std::optional<BcubeShape> bcube_shape(const Graph& graph) {
  for (int base = 2; static_cast<std::int64_t>(base) * base <= graph.size(); ++base) {
    const BcubeShape shape{.base = base, .digits = digits_of(graph.size(), base)};
    if (shape.digits > 1 && is_bcube(graph, shape)) return shape;
  }
  return std::nullopt;
}

int bcube_level(BcubeShape shape, Rank a, Rank b) {
  int level = -1;
  for (int digit = 0; digit < shape.digits; ++digit) {
    if (a % shape.base != b % shape.base) {
      if (level >= 0) return -1;
      level = digit;
    }
    a /= shape.base;
    b /= shape.base;
  }
  return level;
}

}  // namespace weft
