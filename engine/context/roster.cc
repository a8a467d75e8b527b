// roster: translates ranks and keys of a context to those of the job.
#include "engine/context/roster.h"

#include <algorithm>

namespace weft {

Roster Roster::among(const std::vector<Rank>& ranks, const std::string& name) const {
  Roster roster(hub_);
  for (const Rank rank : ranks) roster.ranks_.push_back(in_job(rank));
  roster.prefix_ = prefix_ + name;
  return roster;
}

Rank Roster::in_job(Rank rank) const {
  return ranks_.empty() ? rank : ranks_[static_cast<std::size_t>(rank)];
}

Rank Roster::rank() const {
  const Rank own = hub_->store().rank();
  if (ranks_.empty()) return own;
  return static_cast<Rank>(std::ranges::find(ranks_, own) - ranks_.begin());
}

int Roster::size() const {
  return ranks_.empty() ? hub_->store().size() : static_cast<int>(ranks_.size());
}

Status Roster::put(const std::string& key, std::string bytes) const {
  return hub_->store().put(prefix_ + key, std::move(bytes));
}

Result<std::string> Roster::get_from(Rank rank, const std::string& key, Deadline deadline) const {
  return hub_->store().get_from(in_job(rank), prefix_ + key, deadline);
}

}  // namespace weft
