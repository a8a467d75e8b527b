// missing: see the header.
#include "engine/bootstrap/missing.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {
namespace {

constexpr std::size_t kMostNamed = 16;  // ranks that one sentence lists

}  // namespace

std::string list_ranks(const std::vector<Rank>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t shown = std::min(ranks.size(), kMostNamed);
  for (std::size_t i = 0; i < shown; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

Rank only_one(const std::vector<Rank>& ranks) {
  return ranks.size() == 1 ? ranks[0] : kNoRank;
}

}  // namespace weft
