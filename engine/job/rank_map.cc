// rank_map: translates ranks and keys of a context to those of the job.
#include "engine/job/rank_map.h"

#include <fmt/core.h>
#include <weft/macros.h>

#include <algorithm>

namespace weft {

RankMap RankMap::among(const std::vector<Rank>& ranks, const std::string& name) const {
  RankMap rank_map(events_);
  for (const Rank rank : ranks) rank_map.incarnations_.push_back(incarnation(rank));
  rank_map.prefix_ = rank_map.origin_ = prefix_ + name;
  return rank_map;
}

RankMap RankMap::left(const std::vector<Rank>& ranks, std::uint16_t context) const {
  std::vector<Incarnation> incarnations;
  for (const Rank rank : ranks) incarnations.push_back(incarnation(rank));
  return of_those_left(std::move(incarnations), context, entrances_);
}

RankMap RankMap::joined_by(const std::vector<Incarnation>& newcomers, const std::vector<Rank>& left,
                           std::uint16_t context, int entrances) const {
  std::vector<Incarnation> incarnations = newcomers;
  for (const Rank rank : left) incarnations.push_back(incarnation(rank));
  std::ranges::sort(incarnations, {}, &Incarnation::rank);
  return of_those_left(std::move(incarnations), context, entrances);
}

RankMap RankMap::of_those_left(std::vector<Incarnation> incarnations, std::uint16_t context,
                               int entrances) const {
  RankMap rank_map(events_);
  rank_map.incarnations_ = std::move(incarnations);
  rank_map.origin_ = origin_;
  rank_map.entrances_ = entrances;
  const std::string name =
      fmt::format("{}left/{}/{}/{}", origin_, context, entrances, rank_map.digest());
  rank_map.prefix_ = fmt::format("{}/{}/", name, events_->next_of(name));
  rank_map.put_ = std::make_shared<Keys>();
  return rank_map;
}

RankMap RankMap::alone(std::uint16_t context) const {
  RankMap rank_map(events_);
  const Incarnation own{events_->store().rank(), events_->store().incarnation()};
  rank_map.incarnations_ = {own};
  rank_map.is_outside_ = true;
  rank_map.prefix_ = fmt::format("alone/{}/{}/{}/", context, own.rank, own.number);
  return rank_map;
}

RankMap RankMap::with_look(Look look) const {
  RankMap rank_map = *this;
  rank_map.look_ = std::move(look);
  return rank_map;
}

namespace {

std::string digest_text(std::span<const std::int32_t> values, std::size_t ranks) {
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return fmt::format("{}-{:016x}", ranks, fnv1a64(bytes));
}

}  // namespace

std::string RankMap::digest() const {
  std::vector<std::int32_t> values;
  for (Rank rank = 0; rank < size(); ++rank) {
    values.push_back(incarnation(rank).rank);
    values.push_back(incarnation(rank).number);
  }
  return digest_text(values, static_cast<std::size_t>(size()));
}

std::string digest_of(const std::vector<Rank>& ranks) {
  return digest_text(ranks, ranks.size());
}

Incarnation RankMap::incarnation(Rank rank) const {
  return incarnations_.empty() ? Incarnation{rank, 0}
                               : incarnations_[static_cast<std::size_t>(rank)];
}

Rank RankMap::number_of(Rank in_job) const {
  if (incarnations_.empty()) return in_job;
  const auto found = std::ranges::find(incarnations_, in_job, &Incarnation::rank);
  return found == incarnations_.end() ? kNoRank : static_cast<Rank>(found - incarnations_.begin());
}

Rank RankMap::rank() const {
  return number_of(events_->store().rank());
}

int RankMap::size() const {
  return incarnations_.empty() ? events_->store().size() : static_cast<int>(incarnations_.size());
}

Status RankMap::put(const std::string& key, std::string bytes) const {
  if (put_ != nullptr) {
    const std::lock_guard lock(put_->mutex);
    put_->all.push_back(prefix_ + key);
  }
  return events_->store().put(prefix_ + key, std::move(bytes));
}

void RankMap::take_back_all() const {
  if (put_ == nullptr) return;
  std::vector<std::string> keys;
  {
    const std::lock_guard lock(put_->mutex);
    keys.swap(put_->all);
  }
  // What cannot be taken back now stays.
  for (const std::string& key : keys) (void)events_->store().take_back(key);
}

// An error names a rank by its number here. A rank of other contexts has none.
Result<std::string> RankMap::get_from(Rank rank, const std::string& key, Deadline deadline) const {
  constexpr int kLongestTurnMs = 100;
  for (int turn_ms = 5;; turn_ms = std::min(2 * turn_ms, kLongestTurnMs)) {
    const Deadline turn = Deadline::after_ms(std::min(turn_ms, deadline.left_ms()));
    Result<std::string> bytes =
        events_->store().get_from(incarnation(rank).rank, prefix_ + key, turn);
    const Status& status = bytes.status();
    if (bytes.ok()) return bytes;
    if (status.code() != Code::timed_out || deadline.passed()) {
      const Rank here = number_of(status.rank());
      if (here == status.rank()) return bytes;
      return Status(status.code(),
                    fmt::format("{} (ranks are counted in the whole job)", status.text()), here);
    }
    WEFT_RETURN_IF_ERROR(why_in_vain());
    WEFT_RETURN_IF_ERROR(look(rank));
  }
}

Status RankMap::why_in_vain() const {
  const bool is_of_survivors = prefix_ != origin_;
  for (const StoreEvent& event : events_->seen()) {
    const Rank number = number_of(event.rank);
    const bool is_death = event.kind == StoreEvent::Kind::died;
    const bool is_departure = event.kind == StoreEvent::Kind::left && is_of_survivors;
    if (number == kNoRank || event.incarnation < incarnation(number).number) continue;
    if (event.incarnation > incarnation(number).number)
      return Status(Code::peer_died,
                    fmt::format("rank {} died: another process has its number", number), number);
    if (!(is_death || is_departure)) continue;
    return Status(is_death ? Code::peer_died : Code::peer_left,
                  is_death ? fmt::format("rank {} died: {}", number, event.reason)
                           : fmt::format("rank {} left the job", number),
                  number);
  }
  return {};
}

}  // namespace weft
