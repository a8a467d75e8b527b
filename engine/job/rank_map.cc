// rank_map: translates ranks and keys of a context to those of the job.
#include "engine/job/rank_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

namespace weft {

RankMap RankMap::among(const std::vector<Rank>& ranks, const std::string& name) const {
  RankMap rank_map(events_);
  for (const Rank rank : ranks) rank_map.ranks_.push_back(in_job(rank));
  rank_map.prefix_ = prefix_ + name;
  return rank_map;
}

Rank RankMap::in_job(Rank rank) const {
  return ranks_.empty() ? rank : ranks_[static_cast<std::size_t>(rank)];
}

Rank RankMap::rank() const {
  const Rank own = events_->store().rank();
  if (ranks_.empty()) return own;
  return static_cast<Rank>(std::ranges::find(ranks_, own) - ranks_.begin());
}

int RankMap::size() const {
  return ranks_.empty() ? events_->store().size() : static_cast<int>(ranks_.size());
}

Status RankMap::put(const std::string& key, std::string bytes) const {
  return events_->store().put(prefix_ + key, std::move(bytes));
}

// An error names a rank by its number here. A rank of other contexts has none.
Result<std::string> RankMap::get_from(Rank rank, const std::string& key, Deadline deadline) const {
  Result<std::string> got = events_->store().get_from(in_job(rank), prefix_ + key, deadline);
  const Rank named = got.ok() ? kNoRank : got.status().rank();
  if (ranks_.empty() || named == kNoRank) return got;
  const auto found = std::ranges::find(ranks_, named);
  const Rank here = found == ranks_.end() ? kNoRank : static_cast<Rank>(found - ranks_.begin());
  const std::string_view how = here == named ? "" : " (ranks are counted in the whole job)";
  return Status(got.status().code(), fmt::format("{}{}", got.status().text(), how), here);
}

}  // namespace weft
