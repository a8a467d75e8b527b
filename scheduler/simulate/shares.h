// shares: max-min fair rates of flows on links. Internal to the module.
//
// A strand is what one message has under way on one path. Every link has a level: the rate that a
// strand gets on this link if no other link limits it. The rate of a strand is the lowest level of
// its links. The level of a link solves the equation "the sum, over its strands, of min(level,
// lowest level of the strand's other links) is the capacity". If all links satisfy their equations,
// the rates are max-min fair.
//
// After a change only the links are looked at whose strands changed, and then the links whose
// strands get another rate because of that. With full-duplex interfaces this ends soon. A link sums
// up the changes of its strands, and is looked at when the sum could change its level. A link with
// capacity to spare is not looked at before its capacity is used up. Changes at many links at one
// instant are settled together.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "scheduler/simulate/links.h"

namespace weft::simulator {

class Shares {
 public:
  // Keeps a reference to the caller's links and counts in them what they carried. A path has at
  // most `most_on_path` links; a smaller bound is faster. Levels whose relative difference is below
  // `slack` count as equal, so that small changes are not passed on.
  static std::unique_ptr<Shares> make(std::vector<Link>& table, std::size_t most_on_path,
                                      double slack);
  virtual ~Shares() = default;
  Shares(const Shares&) = delete;
  Shares& operator=(const Shares&) = delete;

  // Makes room for strands 0 … strands-1.
  virtual void reserve(std::size_t strands) = 0;
  // The caller numbers the strands; `strand` must not be in use.
  virtual void add(std::uint32_t strand, const Path& path, double now) = 0;
  virtual void remove(std::uint32_t strand, double carried, double now) = 0;
  // Brings the rates up to date. Appends the strands whose rate changed; a strand may be appended
  // more than once.
  virtual void settle(std::vector<std::uint32_t>& changed) = 0;
  [[nodiscard]] double rate(std::uint32_t strand) const { return rates_[strand]; }
  // Microseconds per byte on a path for a strand that gets an equal share of each link.
  [[nodiscard]] virtual double crowding(const Path& path) const = 0;
  // The link that limits a strand.
  [[nodiscard]] virtual std::uint32_t bottleneck(std::uint32_t strand) const = 0;

 protected:
  Shares() = default;

  std::vector<double> rates_;  // by strand
};

}  // namespace weft::simulator
