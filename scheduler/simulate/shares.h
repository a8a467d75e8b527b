// shares: max-min fair rates of flows on links. Internal to the module.
//
// A strand is what one message has under way on one path. Every link has a level: what a strand gets
// there that nothing else holds up. A strand's rate is the least level of its links. A level solves
// "the sum of min(level, what the strand gets elsewhere) over the strands is the capacity"; where
// levels agree with each other in this, rates are max-min fair. So only links whose strands changed
// are looked at, and those that feel the change: with full-duplex interfaces that is soon at an
// end. A link adds up what it feels, and is looked at when that could move its level: one with
// capacity to spare not before it is used up. A change at many links at one instant is settled at
// once.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "scheduler/simulate/links.h"

namespace weft::simulator {

class Shares {
 public:
  // Refers to the links of the caller, and counts in them what they carried. Levels that differ by
  // less than the part `slack` are one, so a change that has become so small goes no further.
  Shares(std::vector<Link>& table, double slack);

  // Makes room for strands 0 … strands-1.
  void reserve(std::size_t strands);
  // `strand` is a number of the caller's that is not in use.
  void add(std::uint32_t strand, const Path& path, double now);
  void remove(std::uint32_t strand, double carried, double now);
  // Brings the rates up to date; strands whose rate changed are appended, some more than once.
  void settle(std::vector<std::uint32_t>& changed);
  [[nodiscard]] double rate(std::uint32_t strand) const { return rates_[strand]; }
  // Microseconds for a byte on a path if it got an equal share of each link.
  [[nodiscard]] double crowding(const Path& path) const;
  // The link that holds a strand up.
  [[nodiscard]] std::uint32_t bottleneck(std::uint32_t strand) const;

 private:
  static constexpr double kUnbounded = std::numeric_limits<double>::infinity();
  struct Strand {
    std::uint32_t links[4] = {};
    std::uint32_t count = 0;
  };
  // A strand as one of its links has it: with the other links, so that a level is solved without
  // reading the strand, which a million of them would not leave in a cache.
  struct Member {
    std::uint32_t strand = 0;
    std::array<std::uint32_t, 3> others{};  // filled up with nowhere_
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
    const auto& [a, b, c] = member.others;
    return std::min(std::min(levels_[a], levels_[b]), levels_[c]);
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
  std::vector<double> rates_;  // by strand
  std::vector<std::array<std::uint32_t, 4>>
      places_;  // of a strand in the list of each of its links
  std::vector<double> bounds_;
  std::vector<std::uint32_t> stale_;
  std::vector<std::uint32_t> touched_;
  std::vector<std::uint32_t> new_;  // strands
};

}  // namespace weft::simulator
