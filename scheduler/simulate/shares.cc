// shares: levels link by link until they agree.
#include "scheduler/simulate/shares.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace weft::simulator {
namespace {

// How often a link is looked at in one instant, on average, before the levels are taken as they
// are. Agreement takes as many passes as there are different levels along a chain of links, a
// handful in what collectives do.
constexpr std::size_t kMostPasses = 64;

// For paths of up to so many links: how many is known when this is compiled, which makes the loops
// over the other links of a strand, where the time goes, short and without branches.
template <std::size_t kLinks>
class SharesOf final : public Shares {
 public:
  SharesOf(std::vector<Link>& table, double slack)
      : table_(table),
        slack_(slack),
        nowhere_(static_cast<std::uint32_t>(table.size())),
        links_(table.size()),
        levels_(table.size() + 1, kUnbounded) {}

  void reserve(std::size_t strands) override;
  void add(std::uint32_t number, const Path& path, double now) override;
  void remove(std::uint32_t number, double carried, double now) override;
  void settle(std::vector<std::uint32_t>& changed) override;
  [[nodiscard]] double crowding(const Path& path) const override;
  [[nodiscard]] std::uint32_t bottleneck(std::uint32_t number) const override;

 private:
  static constexpr double kUnbounded = std::numeric_limits<double>::infinity();
  struct Strand {
    std::array<std::uint32_t, kLinks> links{};
    std::uint32_t count = 0;
  };
  // A strand as one of its links has it: with the other links, so that a level is solved without
  // reading the strand, which a million of them would not leave in a cache.
  struct Member {
    std::uint32_t strand = 0;
    std::array<std::uint32_t, kLinks - 1> others{};  // filled up with nowhere_
  };
  struct State {
    double busy_since_us = 0;
    double moved = 0;  // at most so much, what its strands get elsewhere, since it was solved
    double room = 0;   // what may move before the level does
    bool is_stale = false;
    bool is_touched = false;
    std::vector<Member> members;
  };

  [[nodiscard]] Member member(std::uint32_t number, std::uint32_t place) const;
  // What a strand gets on its other links.
  [[nodiscard]] double elsewhere(const Member& member) const {
    double least = levels_[member.others[0]];
    for (std::size_t i = 1; i < member.others.size(); ++i)
      least = std::min(least, levels_[member.others[i]]);
    return least;
  }
  [[nodiscard]] double solve(std::uint32_t link);
  void mark(std::uint32_t link);
  void spread(std::uint32_t link, double old_level);
  void rate(const Member& member, double level, std::vector<std::uint32_t>& changed);

  [[nodiscard]] bool same(double a, double b) const;

  std::vector<Link>& table_;
  double slack_;
  std::uint32_t nowhere_;  // the link after all, which holds nothing up
  std::vector<State> links_;
  std::vector<double> levels_;  // by link
  std::vector<Strand> strands_;
  // Of a strand in the list of each of its links.
  std::vector<std::array<std::uint32_t, kLinks>> places_;
  std::vector<double> bounds_;
  std::vector<std::uint32_t> stale_;
  std::vector<std::uint32_t> touched_;
  std::vector<std::uint32_t> new_;  // strands
};

template <std::size_t kLinks>
bool SharesOf<kLinks>::same(double a, double b) const {
  return a == b || std::abs(a - b) <= slack_ * std::min(a, b);  // either may be unbounded
}

template <std::size_t kLinks>
void SharesOf<kLinks>::reserve(std::size_t strands) {
  strands_.resize(strands);
  rates_.resize(strands);
  places_.resize(strands);
}

template <std::size_t kLinks>
void SharesOf<kLinks>::mark(std::uint32_t link) {
  if (links_[link].is_stale) return;
  links_[link].is_stale = true;
  stale_.push_back(link);
}

template <std::size_t kLinks>
void SharesOf<kLinks>::add(std::uint32_t number, const Path& path, double now) {
  Strand& strand = strands_[number];
  strand.count = path.count;
  std::copy_n(path.links.begin(), path.count, strand.links.begin());
  rates_[number] = 0;
  new_.push_back(number);
  for (std::uint32_t i = 0; i < path.count; ++i) {
    State& link = links_[path.links[i]];
    if (link.members.empty()) link.busy_since_us = now;
    places_[number][i] = static_cast<std::uint32_t>(link.members.size());
    link.members.push_back(member(number, i));
    mark(path.links[i]);
  }
}

// Of the strand's link of that place.
template <std::size_t kLinks>
SharesOf<kLinks>::Member SharesOf<kLinks>::member(std::uint32_t number, std::uint32_t place) const {
  const Strand& strand = strands_[number];
  Member member{number, {}};
  member.others.fill(nowhere_);
  std::size_t other = 0;
  for (std::uint32_t i = 0; i < strand.count; ++i)
    if (i != place) member.others[other++] = strand.links[i];
  return member;
}

template <std::size_t kLinks>
void SharesOf<kLinks>::remove(std::uint32_t number, double carried, double now) {
  const Strand& strand = strands_[number];
  for (std::uint32_t i = 0; i < strand.count; ++i) {
    const std::uint32_t id = strand.links[i];
    State& link = links_[id];
    const std::uint32_t place = places_[number][i];
    link.members[place] = link.members.back();
    const std::uint32_t last = link.members.back().strand;
    for (std::uint32_t k = 0; k < strands_[last].count; ++k)
      if (strands_[last].links[k] == id) places_[last][k] = place;
    link.members.pop_back();
    table_[id].bytes += carried;
    if (link.members.empty()) table_[id].busy_us += now - link.busy_since_us;
    mark(id);
  }
}

// What strands that are held up elsewhere leave is shared by the others. Each pass finds more of
// the former, so it ends.
template <std::size_t kLinks>
double SharesOf<kLinks>::solve(std::uint32_t link) {
  bounds_.clear();
  for (const Member& member : links_[link].members) bounds_.push_back(elsewhere(member));
  std::size_t sharing = bounds_.size();
  double& room = links_[link].room;
  if (sharing == 0) return kUnbounded;
  const double capacity = table_[link].bytes_per_us;
  double level = capacity / static_cast<double>(sharing);
  while (true) {
    const double held_up_below = level * (1 - slack_);
    double held_up = 0;
    std::size_t free = 0;
    for (const double bound : bounds_) {
      const bool is_free = bound >= held_up_below;
      held_up += is_free ? 0 : bound;
      free += is_free ? 1 : 0;
    }
    if (free == sharing) {
      room = slack_ * level * static_cast<double>(free);
      return level;
    }
    if (free == 0) {
      room = capacity - held_up;
      return kUnbounded;
    }
    sharing = free;
    level = (capacity - held_up) / static_cast<double>(free);
  }
}

// Another link feels a new level here if a strand of both gets less than its level, before or now.
// It is looked at when all that it felt could move its own level.
template <std::size_t kLinks>
void SharesOf<kLinks>::spread(std::uint32_t link, double old_level) {
  const double lower = std::min(old_level, levels_[link]);
  const double upper = std::max(old_level, levels_[link]);
  for (const Member& member : links_[link].members) {
    for (std::size_t i = 0; i < member.others.size() && member.others[i] != nowhere_; ++i) {
      const std::uint32_t other = member.others[i];
      if (lower >= levels_[other]) continue;
      double rest = kUnbounded;
      for (std::size_t k = 0; k < member.others.size(); ++k)
        if (k != i) rest = std::min(rest, levels_[member.others[k]]);
      if (rest <= lower) continue;
      State& felt = links_[other];
      felt.moved += std::min({upper, rest, levels_[other]}) - lower;
      if (felt.moved > felt.room) mark(other);
    }
  }
}

template <std::size_t kLinks>
void SharesOf<kLinks>::settle(std::vector<std::uint32_t>& changed) {
  std::size_t bound = kMostPasses * (stale_.size() + links_.size());
  for (std::size_t next = 0; next < stale_.size() && bound > 0; ++next, --bound) {
    const std::uint32_t id = stale_[next];
    State& link = links_[id];
    link.is_stale = false;
    link.moved = 0;
    const double level = solve(id);
    const double old_level = levels_[id];
    if (same(level, old_level)) continue;
    levels_[id] = level;
    if (!link.is_touched) touched_.push_back(id);
    link.is_touched = true;
    spread(id, old_level);
  }
  for (const std::uint32_t id : stale_) links_[id].is_stale = false;
  stale_.clear();
  for (const std::uint32_t id : touched_) {
    links_[id].is_touched = false;
    for (const Member& member : links_[id].members) rate(member, levels_[id], changed);
  }
  touched_.clear();
  for (const std::uint32_t number : new_)
    rate(member(number, 0), levels_[strands_[number].links[0]], changed);
  new_.clear();
}

// `level`: of the link that the member is of.
template <std::size_t kLinks>
void SharesOf<kLinks>::rate(const Member& member, double level,
                            std::vector<std::uint32_t>& changed) {
  const double rate = std::min(elsewhere(member), level);
  if (same(rate, rates_[member.strand])) return;
  rates_[member.strand] = rate;
  changed.push_back(member.strand);
}

template <std::size_t kLinks>
double SharesOf<kLinks>::crowding(const Path& path) const {
  double most = 0;
  for (std::uint32_t i = 0; i < path.count; ++i) {
    const auto strands = static_cast<double>(links_[path.links[i]].members.size() + 1);
    most = std::max(most, strands / table_[path.links[i]].bytes_per_us);
  }
  return most;
}

template <std::size_t kLinks>
std::uint32_t SharesOf<kLinks>::bottleneck(std::uint32_t number) const {
  const Strand& strand = strands_[number];
  return *std::min_element(
      strand.links.begin(), strand.links.begin() + strand.count,
      [&](std::uint32_t a, std::uint32_t b) { return levels_[a] < levels_[b]; });
}

}  // namespace

std::unique_ptr<Shares> Shares::make(std::vector<Link>& table, std::size_t most_on_path,
                                     double slack) {
  // Interfaces only; one level of switches that bounds anything; three; all that there can be.
  if (most_on_path <= 2) return std::make_unique<SharesOf<2>>(table, slack);
  if (most_on_path <= 4) return std::make_unique<SharesOf<4>>(table, slack);
  if (most_on_path <= 8) return std::make_unique<SharesOf<8>>(table, slack);
  return std::make_unique<SharesOf<kMostLinks>>(table, slack);
}

}  // namespace weft::simulator
