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

#include <cstdint>
#include <memory>
#include <vector>

#include "scheduler/simulate/links.h"

namespace weft::simulator {

class Shares {
 public:
  // Refers to the links of the caller, and counts in them what they carried. Paths have at most
  // `most_on_path` links: the fewer, the faster. Levels that differ by less than the part `slack`
  // are one, so a change that has become so small goes no further.
  static std::unique_ptr<Shares> make(std::vector<Link>& table, std::size_t most_on_path,
                                      double slack);
  virtual ~Shares() = default;
  Shares(const Shares&) = delete;
  Shares& operator=(const Shares&) = delete;

  // Makes room for strands 0 … strands-1.
  virtual void reserve(std::size_t strands) = 0;
  // `strand` is a number of the caller's that is not in use.
  virtual void add(std::uint32_t strand, const Path& path, double now) = 0;
  virtual void remove(std::uint32_t strand, double carried, double now) = 0;
  // Brings the rates up to date; strands whose rate changed are appended, some more than once.
  virtual void settle(std::vector<std::uint32_t>& changed) = 0;
  [[nodiscard]] double rate(std::uint32_t strand) const { return rates_[strand]; }
  // Microseconds for a byte on a path if it got an equal share of each link.
  [[nodiscard]] virtual double crowding(const Path& path) const = 0;
  // The link that holds a strand up.
  [[nodiscard]] virtual std::uint32_t bottleneck(std::uint32_t strand) const = 0;

 protected:
  Shares() = default;

  std::vector<double> rates_;  // by strand
};

}  // namespace weft::simulator
