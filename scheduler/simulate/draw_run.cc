// The drawing of a run: a row for each rank, its rails below each other; links below that.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "scheduler/simulate/draw.h"

namespace weft {
namespace simulator {

void draw_legend(Canvas& svg, Point at, const Simulation& simulation, const Cluster& cluster,
                 bool with_combining) {
  std::set<int> rails;
  for (const Bar& bar : simulation.bars)
    if (bar.kind == Bar::Kind::message) rails.insert(bar.rail);
  const auto entry = [&](std::string_view color, const std::string& words) {
    svg.rect({at.x, at.y - 9}, 12, 9, color);
    svg.text({at.x + 16, at.y}, words, 11);
    at.x += 34 + 6.2 * static_cast<double>(words.size());
  };
  for (const int rail : rails) {
    if (rail < 0 && with_combining) continue;  // shown as combining
    entry(rail_color(rail),
          rail < 0 ? "in memory" : "rail " + cluster.rails[static_cast<std::size_t>(rail)].name);
  }
  if (with_combining)
    entry(kCombineColor, rails.contains(-1) ? "reading memory, combining" : "combining");
}

namespace {

constexpr double kLeft = 120;
constexpr double kPlot = 820;
constexpr double kRight = 30;
constexpr double kTop = 70;
constexpr std::size_t kMostRows = 48;
constexpr std::size_t kMostGroups = 20;

class RunDrawing {
 public:
  RunDrawing(const Simulation& simulation, const Cluster& cluster)
      : simulation_(simulation), cluster_(cluster), rows_(rows_of(simulation)) {
    // What stays on a machine is read while it is combined, and has no bar of its own.
    for (const Bar& bar : simulation.bars)
      if (bar.kind == Bar::Kind::message && bar.rail >= 0) lanes_[bar.rank].insert(bar.rail);
    std::size_t lane = 1;
    for (const auto& [rank, rails] : lanes_) lane = std::max(lane, rails.size());
    most_lanes_ = static_cast<double>(lane);
    lane_height_ = std::clamp(14.0 / most_lanes_, 2.5, 7.0);
    row_height_ = lane_height_ * most_lanes_ + kCombineHeight + kGap;
  }

  std::string draw(const std::string& title) {
    const std::vector<Group> links = busy_groups();
    const double rows = row_height_ * static_cast<double>(rows_.size());
    const double table = links.empty() ? 0 : 50 + 18 * static_cast<double>(links.size());
    Canvas svg(kLeft + kPlot + kRight, kTop + rows + 40 + table);
    svg.text({16, 24}, title, 15, Anchor::start, "#222", true);
    draw_legend(svg, {16, 46}, simulation_, cluster_, true);
    draw_axis(svg, kTop + rows);
    draw_labels(svg);
    draw_bars(svg);
    draw_links(svg, links, kTop + rows + 60);
    return svg.document();
  }

 private:
  static constexpr double kCombineHeight = 4;
  static constexpr double kGap = 4;

  [[nodiscard]] double x_of(double us) const { return kLeft + kPlot * us / simulation_.total_us; }

  [[nodiscard]] double lane_of(const Bar& bar) const {
    const std::set<int>& rails = lanes_.at(bar.rank);
    return static_cast<double>(std::distance(rails.begin(), rails.find(bar.rail)));
  }

  // Ranks to draw, ascending: all, or the first, the last and those that ended last.
  static std::vector<Rank> rows_of(const Simulation& simulation) {
    const auto ranks = simulation.finish_us.size();
    std::vector<Rank> order(ranks);
    std::iota(order.begin(), order.end(), 0);
    if (ranks <= kMostRows) return order;
    std::ranges::stable_sort(order, std::greater{}, [&](Rank rank) {
      return simulation.finish_us[static_cast<std::size_t>(rank)];
    });
    std::set<Rank> chosen(order.begin(), order.begin() + kMostRows / 3);
    for (std::size_t i = 0; chosen.size() < kMostRows; ++i) {
      chosen.insert(static_cast<Rank>(i));
      chosen.insert(static_cast<Rank>(ranks - 1 - i));
    }
    return {chosen.begin(), chosen.end()};
  }

  void draw_axis(Canvas& svg, double bottom) const {
    for (const double us : round_steps(simulation_.total_us, 8)) {
      svg.line({x_of(us), kTop - 4}, {x_of(us), bottom}, "#e4e7eb");
      svg.text({x_of(us), bottom + 14}, us_text(us), 10, Anchor::middle, "#555");
    }
    const std::size_t ranks = simulation_.finish_us.size();
    if (rows_.size() < ranks) {
      svg.text({kLeft, bottom + 30},
               fmt::format("{} of {} ranks: the first, the last, and those that ended last",
                           rows_.size(), ranks),
               10, Anchor::start, "#777");
    }
  }

  void draw_labels(Canvas& svg) const {
    int machine = -1;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const double y = kTop + row_height_ * static_cast<double>(row);
      const int own = simulation_.machine[static_cast<std::size_t>(rows_[row])];
      if (own != machine) {
        svg.line({16, y - kGap / 2}, {kLeft + kPlot, y - kGap / 2}, "#c3c9d0", 0.7);
        svg.text({16, y + row_height_ / 2 + 2},
                 cluster_.machines[static_cast<std::size_t>(own)].name, 10, Anchor::start, "#555");
        machine = own;
      }
      svg.text({kLeft - 8, y + row_height_ / 2 + 2}, fmt::format("rank {}", rows_[row]), 10,
               Anchor::end);
    }
  }

  void draw_bars(Canvas& svg) const {
    std::vector<int> row_of(simulation_.finish_us.size(), -1);
    for (std::size_t row = 0; row < rows_.size(); ++row)
      row_of[static_cast<std::size_t>(rows_[row])] = static_cast<int>(row);
    std::map<double, double> drawn_until;  // by upper edge
    for (const Bar& bar : simulation_.bars) {
      const int row = row_of[static_cast<std::size_t>(bar.rank)];
      if (row >= 0) draw_bar(svg, bar, row, drawn_until);
    }
  }

  // Bars of less than half a pixel are drawn once for many.
  void draw_bar(Canvas& svg, const Bar& bar, int row, std::map<double, double>& drawn_until) const {
    constexpr double kLeast = 0.5;
    const bool combines = bar.kind == Bar::Kind::combine;
    if (!combines && bar.rail < 0) return;
    const double y =
        kTop + row_height_ * row + lane_height_ * (combines ? most_lanes_ : lane_of(bar));
    const double x = x_of(bar.begin_us);
    const double width = x_of(bar.end_us) - x;
    if (bar.end_us <= bar.begin_us || (width < kLeast && x + width <= drawn_until[y])) return;
    const double shown = std::max(width, kLeast);
    drawn_until[y] = std::max(drawn_until[y], x + shown);
    const std::string hover =
        combines ? fmt::format("rank {} combines {} bytes, {} – {}", bar.rank, bar.bytes,
                               us_text(bar.begin_us), us_text(bar.end_us))
                 : fmt::format("{} to {}, {} bytes, {} – {}", bar.rank, bar.peer, bar.bytes,
                               us_text(bar.begin_us), us_text(bar.end_us));
    svg.rect({x, y}, shown, combines ? kCombineHeight : lane_height_ - 0.5,
             combines ? kCombineColor : rail_color(bar.rail), combines ? 1 : 0.6, hover);
  }

  [[nodiscard]] double use(const Link& link) const {
    return link.bytes == 0 ? 0 : link.bytes / (link.bytes_per_us * simulation_.total_us);
  }

  // Links of one kind on one rail.
  struct Group {
    const Link* busiest = nullptr;
    double sum = 0;
    int count = 0;
  };

  [[nodiscard]] std::vector<Group> busy_groups() const {
    std::map<std::string, Group> by_name;
    for (const Link& link : simulation_.links) {
      Group& group = by_name[group_name(link, cluster_)];
      group.sum += use(link);
      ++group.count;
      if (group.busiest == nullptr || use(link) > use(*group.busiest)) group.busiest = &link;
    }
    std::vector<Group> groups;
    for (const auto& [name, group] : by_name)
      if (group.sum > 0) groups.push_back(group);
    std::ranges::stable_sort(groups, std::greater{},
                             [&](const Group& group) { return use(*group.busiest); });
    if (groups.size() > kMostGroups) groups.resize(kMostGroups);
    return groups;
  }

  // How much of what it could have carried the busiest link of each group did carry; a mark where
  // the group's mean is.
  void draw_links(Canvas& svg, const std::vector<Group>& groups, double y) const {
    if (groups.empty()) return;
    svg.text({16, y}, "links: the busiest of each kind, share of what it could have carried", 12,
             Anchor::start, "#222", true);
    constexpr double kNames = 190;
    constexpr double kFull = 430;
    for (const Group& group : groups) {
      y += 18;
      const double part = use(*group.busiest);
      const double mean = group.sum / group.count;
      svg.text({16, y + 9}, group_name(*group.busiest, cluster_), 11);
      svg.rect({kNames, y}, kFull, 11, "#eef0f2");
      svg.rect({kNames, y}, kFull * std::min(part, 1.0), 11, rail_color(group.busiest->rail), 0.85);
      svg.line({kNames + kFull * mean, y - 2}, {kNames + kFull * mean, y + 13}, "#222", 1.5);
      svg.text({kNames + kFull + 8, y + 9},
               fmt::format("{:.0f}% ({}), mean {:.0f}%", 100 * part, name(*group.busiest, cluster_),
                           100 * mean),
               11);
    }
  }

  const Simulation& simulation_;
  const Cluster& cluster_;
  std::vector<Rank> rows_;
  std::map<Rank, std::set<int>> lanes_;  // of a rank: the rails that carry its messages
  double most_lanes_ = 1;
  double lane_height_ = 0;
  double row_height_ = 0;
};

}  // namespace
}  // namespace simulator

std::string draw_run(const Simulation& simulation, const Cluster& cluster,
                     const std::string& title) {
  return simulator::RunDrawing(simulation, cluster).draw(title);
}

}  // namespace weft
