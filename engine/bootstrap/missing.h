// Who is missing, in words.
#pragma once

#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

// "rank 3", "ranks 1, 2", "ranks 0, 1, … and 90 more".
[[nodiscard]] std::string list_ranks(const std::vector<Rank>& ranks);
// The rank at fault when there is but one, else kNoRank.
[[nodiscard]] Rank only_one(const std::vector<Rank>& ranks);

}  // namespace weft
