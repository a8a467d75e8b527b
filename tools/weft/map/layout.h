// Where the parts of a map's drawing stand, in pixels. From top to bottom: rails, each a row of
// leaf switches, above it a row for each level up to where one switch has all below it or, if that
// is nowhere and they are connected, a top; then machines side by side, each with its interfaces
// above its ranks. Machines without ranks, and switches and rails of theirs alone, have no place:
// ask for none. Internal to the command.
#pragma once

#include <vector>

#include "topology/cluster/cluster.h"

namespace weft {

class MapLayout {
 public:
  static constexpr double kMargin = 24;
  static constexpr double kCell = 34;  // the width of a rank, of an interface
  static constexpr double kSwitch = 20;
  static constexpr double kInterface = 20;
  static constexpr double kRank = 13;  // radius

  struct Point {
    double x;
    double y;
  };
  struct Box {
    double x;
    double y;
    double width;
    double height;

    [[nodiscard]] double middle() const { return x + width / 2; }
  };

  // Keeps a reference. `used`: by machine.
  MapLayout(const Cluster& cluster, std::vector<bool> used);

  [[nodiscard]] double width() const { return width_; }
  [[nodiscard]] double height() const;
  // Rows of a rail's switches, without the top. 0: nobody is on the rail.
  [[nodiscard]] int levels(int rail) const {
    return static_cast<int>(switches_[static_cast<std::size_t>(rail)].size());
  }
  // In use: those of a level, from left to right.
  [[nodiscard]] const std::vector<int>& switches(int rail, int level) const {
    return switches_[static_cast<std::size_t>(rail)][static_cast<std::size_t>(level)];
  }
  // Used, and on the rail.
  [[nodiscard]] bool has(int rail, int machine) const {
    return used_[static_cast<std::size_t>(machine)] && at(rail).has(machine);
  }
  [[nodiscard]] bool has_top(int rail) const;

  [[nodiscard]] Box machine(int machine) const;
  [[nodiscard]] Point rank(int machine, int local) const;
  [[nodiscard]] Box interface(int rail, int machine) const;
  [[nodiscard]] Box box(int rail, int level, int number) const;
  [[nodiscard]] Box top(int rail) const;
  // The lower edge of the row above a level: where its links upwards end.
  [[nodiscard]] double row_above(int rail, int level) const;
  // Where an interface's link meets its leaf.
  [[nodiscard]] Point port(int rail, int machine) const;

 private:
  [[nodiscard]] const Rail& at(int rail) const {
    return cluster_.rails[static_cast<std::size_t>(rail)];
  }
  void find_switches(int rail);
  [[nodiscard]] Box leaf(int rail, int leaf) const;
  [[nodiscard]] double row(int rail, int level) const;
  // Above those leaves, in a row of that height.
  [[nodiscard]] Box above(int rail, int first_leaf, int last_leaf, double y) const;
  [[nodiscard]] int interfaces(int machine, int before_rail) const;
  [[nodiscard]] double rise(int rail) const;
  // So that what is `count` cells wide stands in the middle of the machine.
  [[nodiscard]] double first_cell(int machine, int count) const;

  const Cluster& cluster_;
  std::vector<bool> used_;
  std::vector<Box> machines_;
  std::vector<std::vector<std::vector<int>>> switches_;  // by rail and level
  std::vector<double> rows_;                             // by rail: the upper edge of its leaves
  double width_ = 0;
};

}  // namespace weft
