// links: what the bytes between two ranks share with others. Internal to the module.
//
// A link is an entry of one table; a path is the links between two ranks on one rail. Interfaces
// carry both directions at once. The links upwards of a level are left out where they can carry all
// that comes from below, and so bound nothing; likewise a machine's memory.
//
// With alike ranks the table has the links of the first group only; a path to a machine of another
// group ends at its like.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "scheduler/simulate/simulate.h"

namespace weft::simulator {

// Two interfaces, and up and down at each level.
inline constexpr std::size_t kMostLinks = 2 + 2 * kMostSwitchLevels;

struct Path {
  std::array<std::uint32_t, kMostLinks> links{};
  std::uint32_t count = 0;
  int rail = -1;
};

class Links {
 public:
  // Of `alike` ranks, which are whole machines.
  Links(const SimulatedJob& job, const SimulateOptions& options, int alike);

  [[nodiscard]] std::vector<Link>& table() { return table_; }
  [[nodiscard]] bool share_memory(Rank from, Rank to) const {
    return machine_of(from) == machine_of(to);
  }
  // The rails between two ranks of different machines; none: there is no path.
  void rails_between(Rank from, Rank to, std::vector<int>& rails) const {
    job_.rails.rails_between(from, to, rails);
  }
  // All that their machines are on: what Plan::rails numbers.
  void rails_of_machines(Rank from, Rank to, std::vector<int>& rails) const {
    job_.rails.rails_of_machines(from, to, rails);
  }
  // What the sender's interface on the rail carries.
  [[nodiscard]] double bytes_per_us(Rank from, int rail) const {
    const RailBase& base = rails_[static_cast<std::size_t>(rail)];
    return table_[base.out + folded(machine_of(from))].bytes_per_us;
  }
  [[nodiscard]] Path path(Rank from, Rank to, int rail) const;
  // Of the longest path.
  [[nodiscard]] std::size_t most_on_path() const { return most_on_path_; }
  // Least over the rails between two ranks, or their memory's.
  [[nodiscard]] double latency_us(Rank from, Rank to, int rail) const;
  // Reading another rank's memory: whether ranks of one machine hold each other up, and how.
  [[nodiscard]] bool is_memory_shared() const { return memory_base_ != kNone; }
  [[nodiscard]] Path memory_path(Rank reader) const;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct LevelBase {
    int level = 0;
    std::uint32_t up = 0;
    std::uint32_t down = 0;
  };
  struct RailBase {
    std::uint32_t out = 0;
    std::uint32_t in = 0;
    std::vector<LevelBase> levels;  // that bound anything, from the leaves upwards
  };

  [[nodiscard]] int machine_of(Rank rank) const { return machine_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::uint32_t folded(int machine) const {
    return static_cast<std::uint32_t>(machine % machines_);
  }
  std::uint32_t add(Link::Kind kind, int rail, int count, int level = 0);
  void add_rail(int rail);
  void add_levels(int rail);
  void add_level(int rail, int level, const std::vector<double>& gbit_per_s);
  void add_memory(const SimulateOptions& options, int alike);

  const SimulatedJob& job_;
  std::vector<int> machine_;  // by rank
  int machines_ = 1;          // that are simulated
  std::vector<RailBase> rails_;
  std::size_t most_on_path_ = 2;
  std::uint32_t memory_base_ = kNone;
  std::uint32_t rank_memory_base_ = kNone;
  std::vector<Link> table_;
};

}  // namespace weft::simulator
