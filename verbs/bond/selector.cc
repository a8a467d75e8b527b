// Choosing the path for what is posted next.
#include "verbs/bond/selector.h"

#include <algorithm>

#include "verbs/bond/interface.h"

namespace weft::bond {
namespace {

// A preferred rail is not used if another one carries more than so many times as much.
constexpr double kMuchFaster = 1.5;

}  // namespace

PathSelector::PathSelector(BondEndpoint& endpoint, std::uint32_t channels)
    : endpoint_(endpoint), paths_(endpoint.paths()), preferences_(channels) {}

void PathSelector::prefer_rail(std::uint32_t channel, int rail, PreferFrom from) {
  Preference& preference = preferences_[channel];
  preference = {nullptr, from};
  if (rail < 0) return;
  const auto place = static_cast<std::size_t>(rail) % paths_.size();
  for (Path& path : paths_) {
    const auto before = [&path](const Path& other) {
      return other.rail < path.rail || (other.rail == path.rail && &other < &path);
    };
    if (static_cast<std::size_t>(std::ranges::count_if(paths_, before)) == place)
      preference.path = &path;
  }
}

void PathSelector::use_members(std::span<const int> ours, std::span<const int> theirs) {
  used_.assign(ours.begin(), ours.end());
  peer_used_.assign(theirs.begin(), theirs.end());
  choose_used();
}

void PathSelector::choose_used() {
  const auto is_one_of = [](std::span<const int> members, int member) {
    return std::ranges::find(members, member) != members.end();
  };
  for (Path& path : paths_)
    path.is_used = is_one_of(used_, path.member) && is_one_of(peer_used_, path.peer_member);
  uses_all_ = std::ranges::none_of(paths_, &Path::is_used);
  for (Path& path : paths_) path.is_used |= uses_all_;
}

Path* PathSelector::preferred(std::uint32_t channel, std::int64_t now) {
  const Preference& preference = preferences_[channel];
  if (preference.path == nullptr || !preference.path->live()) return nullptr;
  const double rate = preference.path->flow.rate_at(now);
  const bool is_worth = std::ranges::all_of(paths_, [&](const Path& other) {
    if (!other.live()) return true;
    if (!other.flow.measured) return preference.from == PreferFrom::start || !other.is_used;
    return other.flow.rate_at(now) <= kMuchFaster * rate;
  });
  return is_worth ? preference.path : nullptr;
}

Path* PathSelector::choose(std::uint64_t bytes, std::int64_t now) {
  Path* best = nullptr;
  double soonest = 0;
  const bool is_any = uses_all_ || !do_used_carry_well(now);
  for (Path& path : paths_) {
    if (!path.live() || (!is_any && !path.is_used)) continue;
    const double done = static_cast<double>(path.flow.backlog + bytes) / path.flow.rate_at(now);
    if (best != nullptr && done >= soonest) continue;
    best = &path;
    soonest = done;
  }
  return best;
}

}  // namespace weft::bond
