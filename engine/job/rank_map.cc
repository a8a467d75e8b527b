// rank_map: translates ranks and keys of a context to those of the job.
#include "engine/job/rank_map.h"

#include <algorithm>

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

Result<std::string> RankMap::get_from(Rank rank, const std::string& key, Deadline deadline) const {
  return events_->store().get_from(in_job(rank), prefix_ + key, deadline);
}

}  // namespace weft
