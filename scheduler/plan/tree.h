// tree: the binomial tree that broadcast goes down and reduce goes up. Internal.
#pragma once

#include <vector>

#include "scheduler/plan/plan.h"

namespace weft {

// One rank's place in the tree. Ranks are counted from the root. The parent of v is v without its
// lowest set bit. Its children are v + 2^k for every 2^k below that bit. The subtree of the child v
// + 2^k consists of the ranks v + 2^k … v + 2^(k+1) - 1, so a node and its descendants are in rank
// order.
struct Tree {
  Rank parent = kNoRank;       // none at the root
  std::vector<Rank> children;  // the one with the largest subtree first, as it takes longest
};

[[nodiscard]] Tree binomial_tree(Rank rank, int size, Rank root);

// Into how many pieces a tensor is cut for the pipeline down the tree. A piece is large compared
// with the cost of its notice, and there is an upper limit, because still more pieces no longer
// shorten the pipeline.
[[nodiscard]] std::uint32_t tree_pieces(std::size_t bytes);

}  // namespace weft
