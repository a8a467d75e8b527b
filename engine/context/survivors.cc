// survivors: see the header.
#include "engine/context/survivors.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

namespace weft {

Status in_numbers_of(const std::vector<Rank>& ranks, const Status& status) {
  if (status.rank() < 0 || status.rank() >= std::ssize(ranks)) return status;
  const Rank rank = ranks[static_cast<std::size_t>(status.rank())];
  if (rank == status.rank()) return status;
  return Status(status.code(),
                fmt::format("{} (ranks are counted in {})", status.text(), fmt::join(ranks, ", ")),
                rank);
}

Status death_behind(Context::Core& core, const Status& status) {
  constexpr std::int64_t kPatienceMs = 300;
  constexpr int kTurnMs = 5;
  if (status.code() != Code::mismatch) return status;
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (true) {
    for (Rank rank = 0; rank < core.config().size; ++rank) {
      if (core.is_gone(rank))
        return Status(Code::peer_died, fmt::format("rank {} is gone ({})", rank, status.text()),
                      rank);
    }
    if (deadline.passed()) return status;
    (void)::poll(nullptr, 0, kTurnMs);
  }
}

namespace {

// Those of these ranks that are not gone, as numbers in `present`, and in those of the first core.
struct Left {
  std::vector<Rank> numbers, ranks;
};

Left left_of(const Survivors& present, const Status& why) {
  Left left;
  for (std::size_t number = 0; number < present.ranks.size(); ++number) {
    const auto rank = static_cast<Rank>(number);
    const bool is_named = is_gone(why) && why.rank() == rank;
    if (is_named || present.core->is_gone(rank)) continue;
    left.numbers.push_back(rank);
    left.ranks.push_back(present.ranks[number]);
  }
  return left;
}

// Those of an entrance that are not in a core and not gone.
std::vector<Incarnation> missing_of(const Entrance& entrance, const RankMap& present) {
  std::vector<Incarnation> incarnations = entrance.members;
  for (const Newcomer& each : entrance.newcomers) incarnations.push_back(each.who);
  std::erase_if(incarnations, [&](const Incarnation& each) {
    for (Rank rank = 0; rank < present.size(); ++rank)
      if (present.incarnation(rank).rank == each.rank) return true;
    return present.events().is_gone(each);
  });
  return incarnations;
}

// While this rank waits for others in a core that is tried, looks whether they go another way: because ranks
// are let in, or because one of them has closed the core before, and so will never come.
class Lookout {
 public:
  Lookout(LookForEntrance look, Survivors before)
      : look_(std::move(look)), before_(std::move(before)) {}
  // An error if so. `awaited`: who has not come yet, in the numbers of the first core.
  Status look(std::optional<Rank> awaited) {
    constexpr std::int64_t kPauseNs = 10'000'000;
    const std::lock_guard lock(mutex_);
    if (has_ended_ || now_ns() < next_ns_) return {};
    next_ns_ = now_ns() + kPauseNs;
    if (look_ && before_.core->rank_map().events().has_any_returned()) {
      WEFT_ASSIGN(const Entrance* const entrance, look_());
      // Told to the others, who have looked in vain perhaps.
      if (entrance != nullptr) return Status(Code::peer_left, "ranks are let in", kNoRank);
    }
    if (!awaited) return {};
    const auto place = std::ranges::find(before_.ranks, *awaited);
    const auto number = static_cast<Rank>(place - before_.ranks.begin());
    if (place == before_.ranks.end() || !before_.core->has_closed(number)) return {};
    return Status(Code::peer_left, fmt::format("rank {} closed its context", *awaited), *awaited);
  }
  // No look after this.
  void end() {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    look_ = nullptr;
    before_ = {};
  }

 private:
  std::mutex mutex_;
  LookForEntrance look_;
  Survivors before_;
  std::int64_t next_ns_ = 0;
  bool has_ended_ = false;
};

}  // namespace

// Cores that were tried stay open until the end, so that nobody takes this rank for gone.
Result<Survivors> find_survivors(Context::Core& first, Rank own, Survivors present, Status why,
                                 const Regrouping& regrouping) {
  std::vector<std::shared_ptr<Context::Core>> tried;
  const Entrance* entrance = nullptr;
  while (true) {
    const bool looks = entrance == nullptr && regrouping.look != nullptr;
    if (looks) {
      WEFT_ASSIGN(entrance, regrouping.look());
    }
    auto [numbers, ranks] = left_of(present, why);
    // Nobody is gone, or the others take this rank for gone.
    const bool is_here = std::ranges::binary_search(ranks, own);
    const bool is_same = numbers.size() == present.ranks.size() && !(looks && entrance != nullptr);
    if (is_gone(why) && (is_same || !is_here)) return in_numbers_of(present.ranks, why);
    const RankMap& before = present.core->rank_map();
    std::optional<RankMap> map;
    if (looks && entrance != nullptr) {
      const std::vector<Incarnation> joining = missing_of(*entrance, before);
      map.emplace(before.joined_by(joining, numbers, first.number(), entrance->number));
      ranks.clear();
      for (Rank rank = 0; rank < map->size(); ++rank) ranks.push_back(map->incarnation(rank).rank);
    } else {
      map.emplace(before.left(numbers, first.number()));
    }
    const auto lookout =
        std::make_shared<Lookout>(entrance == nullptr ? regrouping.look : nullptr, present);
    const auto look = [lookout, ranks](Rank awaited) {
      if (awaited == kNoRank) return lookout->look(std::nullopt);
      const Status status = lookout->look(ranks[static_cast<std::size_t>(awaited)]);
      return status.rank() == kNoRank ? status
                                      : Status(status.code(), std::string(status.text()), awaited);
    };
    WEFT_ASSIGN(std::shared_ptr<Context::Core> core, first.left(map->with_look(look)));
    tried.push_back(core);
    present = {std::move(ranks), std::move(core)};
    // Who has passed this does not look any more, and who sees others go another way before it tells the rest.
    why = present.core->run(Request{.collective = Collective::barrier});
    lookout->end();
    if (why.ok() && regrouping.meet) why = regrouping.meet(present);
    if (why.ok()) {
      // All are here, so nobody reads what was put for the others.
      for (const auto& each : tried)
        if (each != present.core) each->rank_map().take_back_all();
      return present;
    }
    if (!is_gone(why)) return in_numbers_of(present.ranks, why);
  }
}

Result<std::shared_ptr<Context::Core>> Context::Core::left(const RankMap& left) {
  Config config = config_;
  if (config.local_size == 0) config.local_size = config.size;
  if (!config.trace.empty()) config.trace += fmt::format(".{}", left.digest());
  if (!config.flight.empty()) config.flight += fmt::format(".{}", left.digest());
  return open_at(std::move(config), left, number_, hardware_);
}

bool Context::Core::has_closed(Rank rank) {
  return peers_.has_left(rank);
}

bool Context::Core::is_gone(Rank rank) {
  rank_map_.events().tell_events();
  return membership_.died(rank) || membership_.left(rank) || peers_.has_left(rank);
}

void Context::Core::give_up(const Status& why) {
  const Lane::Hold hold(lane_);
  if (!has_failed()) failures_.fail(why);
}

std::vector<Rank> Context::Core::members() {
  std::vector<Rank> ranks = ranks_of_size(config_.size);
  std::erase_if(ranks, [this](Rank rank) { return is_gone(rank); });
  return ranks;
}

Result<std::shared_ptr<Context::Core>> Context::Core::shrink() {
  Status why;
  {
    const Lane::Hold hold(lane_);
    if (has_failed()) why = lane_.failure();
  }
  WEFT_ASSIGN(Survivors left,
              find_survivors(*this, config_.rank, {ranks_of_size(config_.size), shared_from_this()},
                             why, {}));
  return std::move(left.core);
}

}  // namespace weft
