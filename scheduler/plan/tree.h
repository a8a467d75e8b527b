// tree: the binomial tree that broadcast goes down and reduce goes up. Internal.
#pragma once

#include <vector>

#include "scheduler/plan/plan.h"

namespace weft {

// One rank's place. Ranks are counted from the root: the parent of v is v without its lowest bit,
// its children are v + 2^k for every 2^k below that bit. So the subtree of a child v + 2^k is the
// ranks v + 2^k … v + 2^(k+1) - 1, and a node, its children and theirs are in rank order.
struct Tree {
  Rank parent = kNoRank;       // none at the root
  std::vector<Rank> children;  // the one with the largest subtree first: it has the longest way
};

[[nodiscard]] Tree binomial_tree(Rank rank, int size, Rank root);

// A piece of a tensor on its way through the tree is large against the cost of its notice; more
// pieces than some no longer shorten the pipeline.
[[nodiscard]] std::uint32_t tree_pieces(std::size_t bytes);

}  // namespace weft
