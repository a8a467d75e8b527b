// rank_map: translates ranks and keys of a context to those of the job.
#include "engine/job/rank_map.h"

#include <fmt/core.h>
#include <weft/macros.h>

#include <algorithm>

namespace weft {

RankMap RankMap::among(const std::vector<Rank>& ranks, const std::string& name) const {
  RankMap rank_map(events_);
  for (const Rank rank : ranks) rank_map.ranks_.push_back(in_job(rank));
  rank_map.prefix_ = rank_map.origin_ = prefix_ + name;
  return rank_map;
}

RankMap RankMap::left(const std::vector<Rank>& ranks, std::uint16_t context) const {
  RankMap rank_map(events_);
  for (const Rank rank : ranks) rank_map.ranks_.push_back(in_job(rank));
  rank_map.origin_ = origin_;
  const std::string name =
      fmt::format("{}left/{}/{}", origin_, context, digest_of(rank_map.ranks_));
  rank_map.prefix_ = fmt::format("{}/{}/", name, events_->next_of(name));
  return rank_map;
}

// FNV-1a.
std::string digest_of(const std::vector<Rank>& ranks) {
  std::uint64_t digest = 0xcbf2'9ce4'8422'2325;
  for (const Rank rank : ranks) {
    for (int byte = 0; byte < 4; ++byte) {
      digest ^= static_cast<std::uint64_t>(rank >> (8 * byte)) & 0xFF;
      digest *= 0x100'0000'01b3;
    }
  }
  return fmt::format("{}-{:016x}", ranks.size(), digest);
}

Rank RankMap::in_job(Rank rank) const {
  return ranks_.empty() ? rank : ranks_[static_cast<std::size_t>(rank)];
}

Rank RankMap::number_of(Rank in_job) const {
  if (ranks_.empty()) return in_job;
  const auto found = std::ranges::find(ranks_, in_job);
  return found == ranks_.end() ? kNoRank : static_cast<Rank>(found - ranks_.begin());
}

Rank RankMap::rank() const {
  return number_of(events_->store().rank());
}

int RankMap::size() const {
  return ranks_.empty() ? events_->store().size() : static_cast<int>(ranks_.size());
}

Status RankMap::put(const std::string& key, std::string bytes) const {
  return events_->store().put(prefix_ + key, std::move(bytes));
}

// An error names a rank by its number here. A rank of other contexts has none.
Result<std::string> RankMap::get_from(Rank rank, const std::string& key, Deadline deadline) const {
  constexpr int kLongestTurnMs = 100;
  for (int turn_ms = 5;; turn_ms = std::min(2 * turn_ms, kLongestTurnMs)) {
    const Deadline turn = Deadline::after_ms(std::min(turn_ms, deadline.left_ms()));
    Result<std::string> bytes = events_->store().get_from(in_job(rank), prefix_ + key, turn);
    const Status& status = bytes.status();
    if (bytes.ok()) return bytes;
    if (status.code() != Code::timed_out || deadline.passed()) {
      const Rank here = number_of(status.rank());
      if (here == status.rank()) return bytes;
      return Status(status.code(),
                    fmt::format("{} (ranks are counted in the whole job)", status.text()), here);
    }
    WEFT_RETURN_IF_ERROR(why_in_vain());
  }
}

Status RankMap::why_in_vain() const {
  const bool is_of_survivors = prefix_ != origin_;
  for (const StoreEvent& event : events_->seen()) {
    const Rank number = number_of(event.rank);
    const bool is_death = event.kind == StoreEvent::Kind::died;
    const bool is_departure = event.kind == StoreEvent::Kind::left && is_of_survivors;
    if (number == kNoRank || !(is_death || is_departure)) continue;
    return Status(is_death ? Code::peer_died : Code::peer_left,
                  is_death ? fmt::format("rank {} died: {}", number, event.reason)
                           : fmt::format("rank {} left the job", number),
                  number);
  }
  return {};
}

}  // namespace weft
