// The first rail of the cluster is drawn next to the machines.
#include "tools/weft/map/layout.h"

#include <algorithm>
#include <set>
#include <utility>

namespace weft {
namespace {

constexpr double kTop = 70;       // title, legend, what is left out
constexpr double kLabels = 66;    // left of the switches: the rails' names
constexpr double kGap = 18;       // between machines
constexpr double kPadding = 6;    // inside a machine
constexpr double kRise = 44;      // from one row of switches to the next
constexpr double kCrossed = 120;  // the same, where the lines to a rail cross each other
constexpr double kLeastWidth = 620;
constexpr double kMachine = 108;  // height

}  // namespace

MapLayout::MapLayout(const Cluster& cluster, std::vector<bool> used)
    : cluster_(cluster), used_(std::move(used)) {
  const int machines = static_cast<int>(cluster.machines.size());
  const int rails = static_cast<int>(cluster.rails.size());
  for (int rail = 0; rail < rails; ++rail) find_switches(rail);
  double y = kTop;
  rows_.resize(cluster.rails.size());
  for (int rail = rails - 1; rail >= 0; --rail) {
    if (levels(rail) == 0) continue;
    y += kRise * (levels(rail) - 1 + (has_top(rail) ? 1 : 0));
    rows_[static_cast<std::size_t>(rail)] = y;
    y += rise(rail);
  }
  double x = kMargin + kLabels;
  for (int machine = 0; machine < machines; ++machine) {
    const int ranks = cluster.machines[static_cast<std::size_t>(machine)].ranks;
    const int cells = std::max({ranks, interfaces(machine, rails), 2});
    machines_.push_back({x, y + 24, cells * kCell + 2 * kPadding, kMachine});
    if (used_[static_cast<std::size_t>(machine)]) x += machines_.back().width + kGap;
  }
  width_ = std::max(x - kGap + kMargin, kLeastWidth);
}

double MapLayout::height() const {
  constexpr double kNames = 38;
  return machines_.front().y + kMachine + kNames;
}

void MapLayout::find_switches(int rail) {
  std::vector<std::vector<int>>& levels = switches_.emplace_back();
  const int depth = std::max(at(rail).depth(), 1);
  for (int level = 0; level < depth && (level == 0 || levels.back().size() > 1); ++level) {
    std::set<int> numbers;
    for (int machine = 0; machine < static_cast<int>(cluster_.machines.size()); ++machine)
      if (has(rail, machine)) numbers.insert(at(rail).switch_of(level, machine));
    if (numbers.empty()) return;
    levels.emplace_back(numbers.begin(), numbers.end());
  }
}

bool MapLayout::has_top(int rail) const {
  return at(rail).has_top && levels(rail) > 0 && switches(rail, levels(rail) - 1).size() > 1;
}

double MapLayout::rise(int rail) const {
  return at(rail).stride > 1 ? kCrossed : kRise;
}

double MapLayout::row(int rail, int level) const {
  return rows_[static_cast<std::size_t>(rail)] - kRise * level;
}

double MapLayout::row_above(int rail, int level) const {
  return row(rail, level + 1) + kSwitch;
}

int MapLayout::interfaces(int machine, int before_rail) const {
  int count = 0;
  for (int rail = 0; rail < before_rail; ++rail) count += at(rail).has(machine) ? 1 : 0;
  return count;
}

double MapLayout::first_cell(int machine, int count) const {
  return machines_[static_cast<std::size_t>(machine)].middle() - kCell * count / 2;
}

MapLayout::Box MapLayout::machine(int machine) const {
  return machines_[static_cast<std::size_t>(machine)];
}

MapLayout::Point MapLayout::rank(int machine, int local) const {
  const int ranks = cluster_.machines[static_cast<std::size_t>(machine)].ranks;
  return {first_cell(machine, ranks) + kCell * (local + 0.5),
          machines_[static_cast<std::size_t>(machine)].y + 86};
}

MapLayout::Box MapLayout::interface(int rail, int machine) const {
  const double first =
      first_cell(machine, interfaces(machine, static_cast<int>(cluster_.rails.size())));
  return {first + kCell * interfaces(machine, rail) + 1,
          machines_[static_cast<std::size_t>(machine)].y + 20, kCell - 2, kInterface};
}

// All leaves of a rail get the same part of the width: those of machines that follow each other then
// stand above them.
MapLayout::Box MapLayout::leaf(int rail, int leaf) const {
  const double left = kMargin + kLabels;
  const std::vector<int>& all = switches(rail, 0);
  const double each = (width_ - kMargin - left + kGap) / static_cast<double>(all.size());
  const auto place = static_cast<double>(std::ranges::find(all, leaf) - all.begin());
  return {left + place * each, row(rail, 0), each - kGap, kSwitch};
}

MapLayout::Box MapLayout::above(int rail, int first_leaf, int last_leaf, double y) const {
  const Box first = leaf(rail, first_leaf);
  const Box last = leaf(rail, last_leaf);
  return {first.x, y, last.x + last.width - first.x, kSwitch};
}

MapLayout::Box MapLayout::box(int rail, int level, int number) const {
  std::vector<int> below = switches(rail, 0);
  std::erase_if(below, [&](int leaf) { return at(rail).switch_above(level, leaf) != number; });
  return above(rail, below.front(), below.back(), row(rail, level));
}

MapLayout::Box MapLayout::top(int rail) const {
  const std::vector<int>& all = switches(rail, 0);
  return above(rail, all.front(), all.back(), row(rail, levels(rail)));
}

MapLayout::Point MapLayout::port(int rail, int machine) const {
  const Box box = leaf(rail, at(rail).leaf_of(machine));
  const double y = box.y + kSwitch;
  constexpr double kInset = 12;
  if (at(rail).stride == 1) {
    const double right = std::max(box.x + box.width - kInset, box.x + kInset);
    return {std::clamp(interface(rail, machine).middle(), box.x + kInset, right), y};
  }
  // Side by side in the order of the machines, whose number below this leaf that is:
  const int machines = at(rail).levels.front().machines;
  const int place = machine / at(rail).stride % machines;
  return {box.x + box.width * (place + 0.5) / machines, y};
}

}  // namespace weft
