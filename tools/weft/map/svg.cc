// A map as a drawing. A link is two lines: what goes up at its left, what comes down at its right.
#include "topology/svg/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "tools/weft/map/layout.h"
#include "tools/weft/map/map.h"

namespace weft {
namespace {

using Point = MapLayout::Point;
using Box = MapLayout::Box;

constexpr double kThinnest = 0.8;
constexpr double kThickest = 9;
constexpr double kLeastText = 5;
constexpr const char* kSwitchStyle = "fill=\"#e8eef4\" stroke=\"#5b7590\"";
constexpr const char* kMachineStyle = "fill=\"#fbf7ec\" stroke=\"#a08a50\"";
constexpr const char* kInterfaceStyle = "fill=\"white\" stroke=\"#5b7590\"";

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const std::string_view known = c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : "";
    result += known.empty() ? std::string(1, c) : std::string(known);
  }
  return result;
}

std::string text_at(Point at, double size, std::string_view text, std::string_view anchor) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", at.x,
      at.y, size, anchor, escaped(text));
}

// With text in its middle, and more of it where the mouse rests.
std::string box_element(const Box& box, std::string_view style, double size, std::string_view text,
                        std::string_view title) {
  const std::string rect = fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"4\" {}><title>{}"
      "</title></rect>\n",
      box.x, box.y, box.width, box.height, style, escaped(title));
  return text.empty() ? rect : rect + text_at({box.middle(), box.y + 14}, size, text, "middle");
}

// The width and the color of a link whose time is this share of the busiest link's.
std::string line_element(Point a, Point b, double share, std::string_view title) {
  const auto mix = [share](int idle, int busy) {
    return static_cast<int>(std::lround(idle + share * (busy - idle)));
  };
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" "
      "stroke=\"#{:02x}{:02x}{:02x}\" "
      "stroke-width=\"{:.1f}\" stroke-opacity=\"0.85\"><title>{}</title></line>\n",
      a.x, a.y, b.x, b.y, mix(0x8f, 0xc8), mix(0xae, 0x28), mix(0xcc, 0x1e),
      kThinnest + share * (kThickest - kThinnest), escaped(title));
}

class Drawing {
 public:
  explicit Drawing(const ShownMap& shown)
      : shown_(shown), used_(used_machines(shown)), layout_(shown.cluster, used_) {
    for (const LinkLoad& load : shown.map.loads)
      loads_[{load.kind, load.rail, load.level, load.number}] = &load;
  }

  [[nodiscard]] std::string draw() const {
    const int rails = static_cast<int>(shown_.cluster.rails.size());
    const int machines = static_cast<int>(shown_.cluster.machines.size());
    std::string svg = opening();
    for (int machine = 0; machine < machines; ++machine)
      if (used_[static_cast<std::size_t>(machine)]) svg += machine_element(machine);
    for (int rail = 0; rail < rails; ++rail) svg += links_of(rail);
    for (int rail = 0; rail < rails; ++rail) svg += switches_of(rail);
    for (int rail = 0; rail < rails; ++rail)
      for (int machine = 0; machine < machines; ++machine) svg += interface_element(rail, machine);
    for (Rank rank = 0; rank < shown_.graph.size(); ++rank) svg += rank_element(rank);
    return svg + "</svg>\n";
  }

 private:
  using Key = std::tuple<LinkKind, int, int, int>;  // rail, level, number

  [[nodiscard]] const LinkLoad* find(LinkKind kind, int rail, int number, int level = 0) const {
    const auto found = loads_.find({kind, rail, level, number});
    return found == loads_.end() ? nullptr : found->second;
  }

  // Both directions of a link, from its lower end.
  [[nodiscard]] std::string link(Point low, Point high, const LinkLoad* up,
                                 const LinkLoad* down) const {
    constexpr double kApart = 11;
    std::string svg;
    double shift = -kApart / 2;
    for (const LinkLoad* load : {up, down}) {
      if (load != nullptr) {
        svg += line_element(
            {low.x + shift, low.y}, {high.x + shift, high.y},
            load->us / shown_.map.loads.front().us,
            fmt::format("{}: {:.2f} messages, {:.2f} us", load->name, load->messages, load->us));
      }
      shift += kApart;
    }
    return svg;
  }

  [[nodiscard]] std::string links_of(int rail) const {
    std::string svg;
    for (int m = 0; m < static_cast<int>(shown_.cluster.machines.size()); ++m) {
      if (!layout_.has(rail, m)) continue;
      const Box from = layout_.interface(rail, m);
      svg += link({from.middle(), from.y}, layout_.port(rail, m), find(LinkKind::send, rail, m),
                  find(LinkKind::receive, rail, m));
    }
    for (int level = 0; level < layout_.levels(rail); ++level) svg += links_up(rail, level);
    return svg;
  }

  // Those of the highest level carry nothing where there is no top.
  [[nodiscard]] std::string links_up(int rail, int level) const {
    std::string svg;
    for (const int number : layout_.switches(rail, level)) {
      const Box box = layout_.box(rail, level, number);
      svg +=
          link({box.middle(), box.y}, {box.middle(), layout_.row_above(rail, level)},
               find(LinkKind::up, rail, number, level), find(LinkKind::down, rail, number, level));
    }
    return svg;
  }

  [[nodiscard]] std::string switches_of(int rail) const {
    const Rail& own = shown_.cluster.rails[static_cast<std::size_t>(rail)];
    if (layout_.levels(rail) == 0) return "";
    const Box first = layout_.box(rail, 0, layout_.switches(rail, 0).front());
    std::string svg =
        text_at({MapLayout::kMargin, first.y + 14}, 11, fmt::format("rail {}", own.name), "start");
    for (int level = 0; level < layout_.levels(rail); ++level) {
      const std::string title = own.levels.empty() ? "" : describe(own, level);
      for (const int number : layout_.switches(rail, level)) {
        svg += box_element(layout_.box(rail, level, number), kSwitchStyle, 10,
                           own.levels.empty() ? "switch" : switch_name(level, number), title);
      }
    }
    if (!layout_.has_top(rail)) return svg;
    return svg + box_element(layout_.top(rail), kSwitchStyle, 10, "top", "");
  }

  [[nodiscard]] std::string machine_element(int machine) const {
    const ClusterMachine& own = shown_.cluster.machines[static_cast<std::size_t>(machine)];
    const Box box = layout_.machine(machine);
    const double below = box.y + box.height;
    double us = 0;
    if (const LinkLoad* all = find(LinkKind::memory, -1, machine)) us = all->us;
    for (int seat = own.first_rank; seat < own.first_rank + own.ranks; ++seat)
      if (const LinkLoad* read = find(LinkKind::read, -1, seat)) us = std::max(us, read->us);
    std::string svg = box_element(box, kMachineStyle, 0, "", own.hardware->source);
    const svg::Fitted name = svg::fitted(own.name, 12, box.width, kLeastText);
    svg += text_at({box.middle(), below + 16}, name.size, name.content, "middle");
    if (us == 0) return svg;
    return svg +
           text_at({box.middle(), below + 30}, 9, fmt::format("memory {:.1f} us", us), "middle");
  }

  [[nodiscard]] std::string interface_element(int rail, int machine) const {
    if (!layout_.has(rail, machine)) return "";
    const std::string name = interface_name(shown_.cluster, rail, machine);
    const Box box = layout_.interface(rail, machine);
    // The domain of a PCI address is the same for nearly all.
    std::string_view own = name;
    if (own.starts_with("0000:")) own.remove_prefix(5);
    const svg::Fitted shown = svg::fitted(own, 8, box.width - 2, kLeastText);
    return box_element(box, kInterfaceStyle, shown.size, shown.content, name);
  }

  // A rank, with thin lines to the interfaces that it uses.
  [[nodiscard]] std::string rank_element(Rank rank) const {
    const int machine = shown_.placement.machine_of(rank, shown_.cluster);
    const ClusterMachine& own = shown_.cluster.machines[static_cast<std::size_t>(machine)];
    const int local = shown_.placement.seat[static_cast<std::size_t>(rank)] - own.first_rank;
    const Point center = layout_.rank(machine, local);
    std::string svg;
    for (const int rail : shown_.map.use.rails_of(rank)) {
      const Box to = layout_.interface(rail, machine);
      svg += line_element({center.x, center.y - MapLayout::kRank}, {to.middle(), to.y + to.height},
                          0, "");
    }
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.0f}\" fill=\"#f4b942\"><title>rank {}: {}"
        "</title></circle>\n",
        center.x, center.y, MapLayout::kRank, rank, escaped(shown_.map.use.reason_of(rank)));
    return svg + text_at({center.x, center.y + 4}, 11, fmt::format("{}", rank), "middle");
  }

  [[nodiscard]] std::string opening() const {
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
        "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        layout_.width(), layout_.height());
    svg += text_at({MapLayout::kMargin, 22}, 15,
                   fmt::format("{} of {} ranks: one exchange takes {:.1f} us", shown_.graph.name(),
                               shown_.graph.size(), shown_.map.us),
                   "start");
    const auto unused = std::ranges::count(used_, false);
    if (unused > 0) {
      svg += text_at(
          {MapLayout::kMargin, 60}, 10,
          fmt::format("{} {} without ranks left out", unused, unused == 1 ? "machine" : "machines"),
          "start");
    }
    const double busiest = shown_.map.loads.empty() ? 0 : shown_.map.loads.front().us;
    double x = MapLayout::kMargin;
    for (const double share : {0.1, 0.5, 1.0}) {
      svg += line_element({x, 40}, {x + 30, 40}, share, "");
      svg += text_at({x + 36, 44}, 10, fmt::format("{:.1f} us", share * busiest), "start");
      x += 100;
    }
    return svg + text_at({x, 44}, 10, "a link's left line: up, its right one: down", "start");
  }

  const ShownMap& shown_;
  std::vector<bool> used_;  // by machine
  MapLayout layout_;
  std::map<Key, const LinkLoad*> loads_;
};

}  // namespace

std::string map_svg(const ShownMap& shown) {
  return Drawing(shown).draw();
}

}  // namespace weft
