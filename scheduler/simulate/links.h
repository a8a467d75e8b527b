// links: the links that bytes between two ranks share with others. Internal to the module.
//
// A link is an entry of one table. A path is the list of links between two ranks on one rail. An
// interface has one link for each direction. The links upwards of a level are left out if they can
// carry everything that comes from below, since they then limit nothing. The same holds for a
// machine's memory.
//
// If ranks are alike, the table has only the links of the first group. A path to a machine of
// another group ends at the corresponding machine of the first.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "scheduler/simulate/simulate.h"

namespace weft::simulator {

// A path has two interfaces, and one link up and one down at each level.
inline constexpr std::size_t kMostLinks = 2 + 2 * kMostSwitchLevels;

struct Path {
  std::array<std::uint32_t, kMostLinks> links{};
  std::uint32_t count = 0;
  int rail = -1;
};

class Links {
 public:
  // Makes the links of the first `alike` ranks, which fill whole machines.
  Links(const SimulatedJob& job, const SimulateOptions& options, int alike);

  [[nodiscard]] std::vector<Link>& table() { return table_; }
  [[nodiscard]] bool share_memory(Rank from, Rank to) const {
    return machine_of(from) == machine_of(to);
  }
  // The rails between two ranks of different machines. Empty if there is no path.
  void rails_between(Rank from, Rank to, std::vector<int>& rails) const {
    job_.rails.rails_between(from, to, rails);
  }
  // All rails that both machines are on. The numbers in Plan::rails index this list.
  void rails_of_machines(Rank from, Rank to, std::vector<int>& rails) const {
    job_.rails.rails_of_machines(from, to, rails);
  }
  // The rate of the sender's interface on the rail.
  [[nodiscard]] double bytes_per_us(Rank from, int rail) const {
    const RailBase& base = rails_[static_cast<std::size_t>(rail)];
    return table_[base.out + folded(machine_of(from))].bytes_per_us;
  }
  [[nodiscard]] Path path(Rank from, Rank to, int rail) const;
  // The number of links of the longest path.
  [[nodiscard]] std::size_t most_on_path() const { return most_on_path_; }
  // The latency between two ranks on a rail, or that of their memory.
  [[nodiscard]] double latency_us(Rank from, Rank to, int rail) const;
  // Whether ranks of one machine slow each other down when they read each other's memory; and the
  // links that such a read uses.
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
    std::vector<LevelBase> levels;  // those that limit anything, from the leaves upwards
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
  int machines_ = 1;          // number of machines that are simulated
  std::vector<RailBase> rails_;
  std::size_t most_on_path_ = 2;
  std::uint32_t memory_base_ = kNone;
  std::uint32_t rank_memory_base_ = kNone;
  std::vector<Link> table_;
};

}  // namespace weft::simulator
