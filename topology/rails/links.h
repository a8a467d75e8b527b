// All parts of a cluster that can limit a transfer, as numbered links. Internal to the module.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "topology/rails/rails.h"

namespace weft {

class Links {
 public:
  // Keeps a reference.
  explicit Links(const Cluster& cluster);

  [[nodiscard]] std::size_t size() const { return gbit_per_s_.size(); }
  // 0 means no bound.
  [[nodiscard]] double gbit_per_s(std::size_t link) const { return gbit_per_s_[link]; }
  // The kind, name and rate of a link, without a load.
  [[nodiscard]] LinkLoad describe(std::size_t link) const;

  [[nodiscard]] std::size_t sends(int rail, int machine) const {
    return first_[static_cast<std::size_t>(rail)] + 2 * static_cast<std::size_t>(machine);
  }
  [[nodiscard]] std::size_t receives(int rail, int machine) const {
    return sends(rail, machine) + 1;
  }
  [[nodiscard]] std::size_t up(int rail, int level, int number) const {
    const std::size_t first =
        first_up_[static_cast<std::size_t>(rail)][static_cast<std::size_t>(level)];
    return first + 2 * static_cast<std::size_t>(number);
  }
  [[nodiscard]] std::size_t down(int rail, int level, int number) const {
    return up(rail, level, number) + 1;
  }
  // The number of switches of a level.
  [[nodiscard]] int switches(int rail, int level) const {
    return static_cast<int>(up(rail, level + 1, 0) - up(rail, level, 0)) / 2;
  }
  [[nodiscard]] std::size_t memory(int machine) const {
    return first_.back() + static_cast<std::size_t>(machine);
  }
  // The link for what one rank reads from other ranks' memory.
  [[nodiscard]] std::size_t reads(int seat) const {
    return memory(machines_) + static_cast<std::size_t>(seat);
  }

 private:
  void add_rail(const Rail& rail);
  void describe_on_rail(std::size_t link, LinkLoad& load) const;

  const Cluster& cluster_;
  int machines_;
  std::vector<std::size_t> first_;  // first link of each rail; then, of memory
  // First upward link of each rail and level; then the end of the rail.
  std::vector<std::array<std::size_t, kMostSwitchLevels + 1>> first_up_;
  std::vector<double> gbit_per_s_;
};

}  // namespace weft
