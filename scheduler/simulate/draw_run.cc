// The drawing of a run: a row for each rank, its rails below each other; links below that.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "scheduler/simulate/draw.h"
#include "topology/svg/svg.h"

namespace weft {
namespace simulator {

namespace {

constexpr double kLegendLine = 15;
constexpr Point kLegend{16, 46};

}  // namespace

Legend::Legend(const Simulation& simulation, const Cluster& cluster, double width,
               bool with_combining)
    : width_(width), next_(kLegend) {
  std::set<int> rails;
  for (const Bar& bar : simulation.bars)
    if (bar.kind == Bar::Kind::message) rails.insert(bar.rail);
  for (const int rail : rails) {
    if (rail < 0 && with_combining) continue;  // shown as combining
    add(rail_color(rail),
        rail < 0 ? "in memory" : "rail " + cluster.rails[static_cast<std::size_t>(rail)].name);
  }
  if (with_combining)
    add(kCombineColor, rails.contains(-1) ? "reading memory, combining" : "combining");
}

void Legend::add(std::string_view color, std::string words) {
  const double wide = 34 + svg::text_width(words, 11);
  if (next_.x > kLegend.x && next_.x + wide > width_) next_ = {kLegend.x, next_.y + kLegendLine};
  entries_.push_back({color, std::move(words), next_});
  next_.x += wide;
}

double Legend::further_height() const {
  return next_.y - kLegend.y;
}

void Legend::draw(Canvas& svg) const {
  for (const Entry& entry : entries_) {
    svg.rect({entry.at.x, entry.at.y - 9}, 12, 9, entry.color);
    svg.text({entry.at.x + 16, entry.at.y}, entry.words, 11);
  }
}

namespace {

constexpr double kRankLabel = 104;  // and margins
constexpr double kLeastName = 16;   // of a machine
constexpr double kMostName = 180;
constexpr double kPlot = 820;
constexpr double kRight = 30;
constexpr double kTop = 70;
constexpr std::size_t kMostRows = 48;
constexpr std::size_t kMostGroups = 20;

class RunDrawing {
 public:
  RunDrawing(const Simulation& simulation, const Cluster& cluster)
      : simulation_(simulation),
        cluster_(cluster),
        rows_(rows_of(simulation)),
        left_(kRankLabel + name_width(simulation, cluster)),
        legend_(simulation, cluster, left_ + kPlot, true),
        top_(kTop + legend_.further_height()) {
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
    Canvas svg(left_ + kPlot + kRight, top_ + rows + 40 + table);
    svg.title(title);
    legend_.draw(svg);
    draw_axis(svg, top_ + rows);
    draw_labels(svg);
    draw_bars(svg);
    draw_links(svg, links, top_ + rows + 60);
    return svg.document();
  }

 private:
  static constexpr double kCombineHeight = 4;
  static constexpr double kGap = 4;

  // Names of machines stand before those of ranks.
  static double name_width(const Simulation& simulation, const Cluster& cluster) {
    double most = kLeastName;
    for (const int machine : simulation.machine) {
      const std::string& name = cluster.machines[static_cast<std::size_t>(machine)].name;
      most = std::max(most, svg::text_width(name, 10));
    }
    return std::min(most, kMostName);
  }

  [[nodiscard]] double x_of(double us) const { return left_ + kPlot * us / simulation_.total_us; }

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
      svg.line({x_of(us), top_ - 4}, {x_of(us), bottom}, "#e4e7eb");
      svg.text({x_of(us), bottom + 14}, us_text(us), 10, Anchor::middle, "#555");
    }
    const std::size_t ranks = simulation_.finish_us.size();
    if (rows_.size() < ranks) {
      svg.text({left_, bottom + 30},
               fmt::format("{} of {} ranks: the first, the last, and those that ended last",
                           rows_.size(), ranks),
               10, Anchor::start, "#777");
    }
  }

  void draw_labels(Canvas& svg) const {
    int machine = -1;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const double y = top_ + row_height_ * static_cast<double>(row);
      const int own = simulation_.machine[static_cast<std::size_t>(rows_[row])];
      if (own != machine) {
        svg.line({16, y - kGap / 2}, {left_ + kPlot, y - kGap / 2}, "#c3c9d0", 0.7);
        const svg::Fitted name =
            svg::fitted(cluster_.machines[static_cast<std::size_t>(own)].name, 10, kMostName);
        svg.text({16, y + row_height_ / 2 + 2}, name.content, name.size, Anchor::start, "#555");
        machine = own;
      }
      svg.text({left_ - 8, y + row_height_ / 2 + 2}, fmt::format("rank {}", rows_[row]), 10,
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
        top_ + row_height_ * row + lane_height_ * (combines ? most_lanes_ : lane_of(bar));
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
      const svg::Fitted name = svg::fitted(group_name(*group.busiest, cluster_), 11, kNames - 24);
      svg.text({16, y + 9}, name.content, name.size);
      svg.rect({kNames, y}, kFull, 11, "#eef0f2");
      svg.rect({kNames, y}, kFull * std::min(part, 1.0), 11, rail_color(group.busiest->rail), 0.85);
      svg.line({kNames + kFull * mean, y - 2}, {kNames + kFull * mean, y + 13}, "#222", 1.5);
      const svg::Fitted words =
          svg::fitted(fmt::format("{:.0f}% ({}), mean {:.0f}%", 100 * part,
                                  weft::name(*group.busiest, cluster_), 100 * mean),
                      11, svg.width() - kNames - kFull - 16);
      svg.text({kNames + kFull + 8, y + 9}, words.content, words.size);
    }
  }

  const Simulation& simulation_;
  const Cluster& cluster_;
  std::vector<Rank> rows_;
  double left_;
  Legend legend_;
  double top_;
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
