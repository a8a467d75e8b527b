// missing: lists of missing ranks for error messages.
#pragma once

#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

// "rank 3", "ranks 1, 2", "ranks 0, 1, … and 90 more".
[[nodiscard]] std::string list_ranks(const std::vector<Rank>& ranks);
// The rank, if the list has exactly one; else kNoRank.
[[nodiscard]] Rank only_one(const std::vector<Rank>& ranks);

}  // namespace weft
