// rounds: see the header.
#include "scheduler/match/rounds.h"

#include <algorithm>
#include <utility>

namespace weft::match {

void Round::begin_count(std::uint64_t origin) {
  if (size == kMost) {  // the oldest one is the one that others have forgotten first
    std::ranges::copy(counts.begin() + 1, counts.end(), counts.begin());
    --size;
  }
  counts[size++] = {origin, 0};
}

void Round::count_on() {
  for (std::size_t i = 0; i < size; ++i) ++counts[i].number;
}

// A name that is not known was never submitted, which counts as long ago as the clock's beginning, or
// longer ago than the gap after which it is forgotten.
Round Rounds::begin(const std::string& name) {
  age();
  if (const auto kept = old_.find(name); kept != old_.end()) young_.insert(old_.extract(kept));
  const auto [at, is_new] = young_.try_emplace(name);
  Known& known = at->second;
  Round& round = known.latest;
  const std::uint64_t gap = clock_ - known.at;
  if (is_new) {
    round.begin_count(0);
  } else {
    round.count_on();
  }
  if (gap > 3 * window_) round = {};
  if (gap > 2 * window_) round.begin_count(clock_);
  round.token = 2 * (round.counts[0].origin + round.counts[0].number);
  known.at = clock_++;
  return round;
}

Round Rounds::begin_uncounted() {
  Round round;
  round.token = 2 * uncounted_++ + 1;
  return round;
}

void Rounds::age() {
  if (clock_ - young_since_ <= 3 * window_) return;
  young_since_ = clock_;
  old_ = std::exchange(young_, {});
}

const Rounds::Known* Rounds::find(const std::string& name) const {
  for (const auto* names : {&young_, &old_})
    if (const auto found = names->find(name); found != names->end()) return &found->second;
  return nullptr;
}

Place Rounds::place(const Round& own, const Round& other) const {
  const auto order = [](std::uint64_t a, std::uint64_t b) {
    return b < a ? Place::before : b == a ? Place::same : Place::after;
  };
  for (std::size_t i = own.size; i-- > 0;) {
    const Round::Count& mine = own.counts[i];
    for (std::size_t k = other.size; k-- > 0;) {
      const Round::Count& its = other.counts[k];
      const std::uint64_t apart =
          std::max(mine.origin, its.origin) - std::min(mine.origin, its.origin);
      if (apart <= window_ / 2) return order(mine.number, its.number);
    }
  }
  // One of them has forgotten the name since, so they are far apart.
  if (!own.is_counted() || !other.is_counted()) return Place::after;
  return order(own.counts[own.size - 1].origin, other.counts[other.size - 1].origin);
}

Place Rounds::place(const std::string& name, const Round& other) const {
  const Known* const known = find(name);
  return known == nullptr ? Place::after : place(known->latest, other);
}

void Rounds::fail(const std::string& name, const Round& round, const Status& status) {
  const auto known = young_.find(name);
  if (known == young_.end()) return;
  known->second.failure = std::make_unique<const Failure>(round, status);
}

Status Rounds::failure(const std::string& name, const Round& other) const {
  const Known* const known = find(name);
  const bool has_failed = known != nullptr && known->failure != nullptr &&
                          place(known->failure->round, other) == Place::same;
  return has_failed ? known->failure->status : Status();
}

}  // namespace weft::match
