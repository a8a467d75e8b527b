// shares: levels link by link until they agree.
#include "scheduler/simulate/shares.h"

#include <algorithm>
#include <cmath>

namespace weft::simulator {
namespace {

// How often a link is looked at in one instant, on average, before the levels are taken as they
// are. Agreement takes as many passes as there are different levels along a chain of links, a
// handful in what collectives do.
constexpr std::size_t kMostPasses = 64;

}  // namespace

Shares::Shares(std::vector<Link>& table, double slack)
    : table_(table), slack_(slack), links_(table.size()), levels_(table.size(), kUnbounded) {}

bool Shares::same(double a, double b) const {
  return a == b || std::abs(a - b) <= slack_ * std::min(a, b);  // either may be unbounded
}

void Shares::reserve(std::size_t strands) {
  strands_.resize(strands);
  places_.resize(strands);
}

void Shares::mark(std::uint32_t link) {
  if (links_[link].is_stale) return;
  links_[link].is_stale = true;
  stale_.push_back(link);
}

void Shares::add(std::uint32_t number, const Path& path, double now) {
  Strand& strand = strands_[number];
  strand.count = path.count;
  strand.rate = 0;
  for (std::uint32_t i = 0; i < path.count; ++i) {
    State& link = links_[path.links[i]];
    if (link.strands.empty()) link.busy_since_us = now;
    strand.links[i] = path.links[i];
    places_[number][i] = static_cast<std::uint32_t>(link.strands.size());
    link.strands.push_back(number);
    mark(path.links[i]);
  }
}

void Shares::remove(std::uint32_t number, double carried, double now) {
  const Strand& strand = strands_[number];
  for (std::uint32_t i = 0; i < strand.count; ++i) {
    const std::uint32_t id = strand.links[i];
    State& link = links_[id];
    const std::uint32_t place = places_[number][i];
    const std::uint32_t last = link.strands.back();
    link.strands[place] = last;
    for (std::uint32_t k = 0; k < strands_[last].count; ++k)
      if (strands_[last].links[k] == id) places_[last][k] = place;
    link.strands.pop_back();
    table_[id].bytes += carried;
    if (link.strands.empty()) table_[id].busy_us += now - link.busy_since_us;
    mark(id);
  }
}

// What a strand gets on its other links.
double Shares::elsewhere(const Strand& strand, std::uint32_t link) const {
  double least = kUnbounded;
  for (std::uint32_t i = 0; i < strand.count; ++i)
    if (strand.links[i] != link) least = std::min(least, levels_[strand.links[i]]);
  return least;
}

// What strands that are held up elsewhere leave is shared by the others. Each pass finds more of
// the former, so it ends.
double Shares::solve(std::uint32_t link) {
  bounds_.clear();
  for (const std::uint32_t strand : links_[link].strands)
    bounds_.push_back(elsewhere(strands_[strand], link));
  std::size_t sharing = bounds_.size();
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
    if (free == sharing) return level;
    if (free == 0) return kUnbounded;
    sharing = free;
    level = (capacity - held_up) / static_cast<double>(free);
  }
}

// Another link feels a new level here if a strand of both gets less than its level, before or now.
void Shares::spread(std::uint32_t link, double old_level) {
  const double lower = std::min(old_level, levels_[link]);
  for (const std::uint32_t number : links_[link].strands) {
    const Strand& strand = strands_[number];
    for (std::uint32_t i = 0; i < strand.count; ++i) {
      const std::uint32_t other = strand.links[i];
      if (other == link || lower >= levels_[other]) continue;
      double rest = kUnbounded;
      for (std::uint32_t k = 0; k < strand.count; ++k)
        if (k != i && strand.links[k] != link) rest = std::min(rest, levels_[strand.links[k]]);
      if (rest > lower) mark(other);
    }
  }
}

void Shares::settle(std::vector<std::uint32_t>& changed) {
  std::size_t bound = kMostPasses * (stale_.size() + links_.size());
  for (std::size_t next = 0; next < stale_.size() && bound > 0; ++next, --bound) {
    const std::uint32_t id = stale_[next];
    State& link = links_[id];
    link.is_stale = false;
    if (!link.is_touched) touched_.push_back(id);
    link.is_touched = true;
    const double old_level = levels_[id];
    levels_[id] = solve(id);
    if (!same(levels_[id], old_level)) spread(id, old_level);
  }
  for (const std::uint32_t id : stale_) links_[id].is_stale = false;
  stale_.clear();
  for (const std::uint32_t id : touched_) rate_strands_of(id, changed);
  touched_.clear();
}

void Shares::rate_strands_of(std::uint32_t id, std::vector<std::uint32_t>& changed) {
  links_[id].is_touched = false;
  for (const std::uint32_t number : links_[id].strands) {
    Strand& strand = strands_[number];
    const double rate = std::min(elsewhere(strand, id), levels_[id]);
    if (same(rate, strand.rate)) continue;
    strand.rate = rate;
    changed.push_back(number);
  }
}

double Shares::crowding(const Path& path) const {
  double most = 0;
  for (std::uint32_t i = 0; i < path.count; ++i) {
    const auto strands = static_cast<double>(links_[path.links[i]].strands.size() + 1);
    most = std::max(most, strands / table_[path.links[i]].bytes_per_us);
  }
  return most;
}

std::uint32_t Shares::bottleneck(std::uint32_t number) const {
  const Strand& strand = strands_[number];
  return *std::min_element(
      strand.links, strand.links + strand.count,
      [&](std::uint32_t a, std::uint32_t b) { return levels_[a] < levels_[b]; });
}

}  // namespace weft::simulator
