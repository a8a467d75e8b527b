// The PCI part of the picture: from the left, a host bridge, switches, and a card for each device,
// with the rate of the link to it. Bridges that lead to one device only are left out, as in the text.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "tools/weft/topo/picture.h"
#include "topology/svg/svg.h"

namespace weft {
namespace {

constexpr double kCardHeight = 38;
constexpr double kGap = 7;
constexpr double kStep = 74;  // from a bridge to what is below it
constexpr double kDot = 11;   // of a bridge
// Deeper ones would leave no room for the cards.
constexpr std::size_t kDeepest = 3;

// Of switches with GPUs; others are gray.
constexpr std::array<std::string_view, 10> kPalette{"#2b8cbe", "#e6842a", "#3a9d5d", "#b5508c",
                                                    "#8a6fc9", "#c9a227", "#17a2a2", "#d0524c",
                                                    "#6b8e23", "#7a5c45"};
constexpr std::string_view kGray = "#9aa3ad";

struct Below {
  double center;  // where a line meets it
  double bottom;
};

class Tree {
 public:
  explicit Tree(const AffinityColors& colors) : colors_(colors) {}

  // Devices of one host bridge, from `y` on.
  Below draw_host_bridge(std::span<const ShownDevice> devices, double y) {
    const std::string& name = devices.front().place->host_bridge;
    if (name.empty()) return draw_loose(devices, y);
    elements_ += svg::text(0, y + 9, "class=\"small\"", "host bridge " + name);
    return draw_fork(devices, 0, 0, 0, y + 16, "class=\"host\" rx=\"5.5\"", name);
  }

  [[nodiscard]] std::string take() { return std::move(elements_); }

 private:
  // A card, or a switch and what is below it. `devices` share the first `depth` bridges; `level`
  // switches are drawn above them.
  Below draw(std::span<const ShownDevice> devices, std::size_t depth, std::size_t level, double x,
             double y) {
    if (devices.size() == 1) return draw_card(devices.front(), x, y);
    std::string title = "PCI bridges";
    for (; shares(devices, depth); ++depth) title += " " + bridge(devices, depth).address;
    return draw_fork(devices, depth, level, x, y, "class=\"switch\" rx=\"2\"", title);
  }

  // A dot at `x`, and lines to all that is below it.
  Below draw_fork(std::span<const ShownDevice> devices, std::size_t depth, std::size_t level,
                  double x, double y, std::string_view attributes, std::string_view title) {
    const double right = level < kDeepest ? x + kStep : x;
    std::vector<double> centers;
    for (std::size_t begin = 0; begin < devices.size();) {
      const std::size_t end = end_of_group(devices, begin, depth);
      const Below below = draw(devices.subspan(begin, end - begin), depth, level + 1, right, y);
      if (right > x) label_rate(rate_to(devices[begin], depth, end - begin), right, below.center);
      centers.push_back(below.center);
      y = below.bottom + kGap;
      begin = end;
    }
    const double center = (centers.front() + centers.back()) / 2;
    if (right > x) {
      draw_lines(x + kDot, center, right, centers);
      elements_ += svg::rect({x, center - kDot / 2, kDot, kDot}, attributes, title);
    }
    return {center, y - kGap};
  }

  // Not on PCI, or at an unknown place.
  Below draw_loose(std::span<const ShownDevice> devices, double y) {
    Below last{y, y - kGap};
    for (const ShownDevice& device : devices) last = draw_card(device, kStep, last.bottom + kGap);
    return last;
  }

  static const PciBridge& bridge(std::span<const ShownDevice> devices, std::size_t depth) {
    return devices.front().place->bridges[depth];
  }

  static bool shares(std::span<const ShownDevice> devices, std::size_t depth) {
    return std::ranges::all_of(devices, [&](const ShownDevice& device) {
      return device.place->bridges.size() > depth &&
             device.place->bridges[depth].address == bridge(devices, depth).address;
    });
  }

  static std::size_t end_of_group(std::span<const ShownDevice> devices, std::size_t begin,
                                  std::size_t depth) {
    std::size_t end = begin + 1;
    while (end < devices.size() && shares(devices.subspan(begin, end + 1 - begin), depth)) ++end;
    return end;
  }

  // Of the link to a group of devices that is drawn below `depth` bridges.
  static double rate_to(const ShownDevice& first, std::size_t depth, std::size_t count) {
    const PciPlace& place = *first.place;
    const bool is_card = count == 1 || place.bridges.size() <= depth;
    return is_card ? place.gbyte_per_s : place.bridges[depth].gbyte_per_s;
  }

  void draw_lines(double x, double y, double right, const std::vector<double>& to) {
    for (const double end : to) {
      const std::string d =
          fmt::format("M{:.1f},{:.1f} H{:.1f} V{:.1f} H{:.1f}", x, y, x + 8, end, right);
      elements_ += svg::path(d, "class=\"wire\"");
    }
  }

  // On the line that ends at (x, y).
  void label_rate(double gbyte_per_s, double x, double y) {
    if (gbyte_per_s <= 0) return;
    elements_ += svg::text(x - 3, y - 4, "class=\"rate\"", fmt::format("{:.3g} GB/s", gbyte_per_s));
  }

  Below draw_card(const ShownDevice& device, double x, double y) {
    const std::string_view color = (device.is_gpu ? colors_.gpus : colors_.nics)[device.position];
    const double width = kNodeWidth - x;
    std::string detail = device.detail;
    detail.erase(0, detail.find_first_not_of(": "));
    const std::string where = device.place->address.empty() ? "not on PCI" : device.place->address;
    elements_ += svg::rect({x, y, width, kCardHeight},
                           device.is_gpu ? "class=\"gpu\" rx=\"4\"" : "class=\"nic\" rx=\"4\"",
                           fmt::format("{}{}, {}{}", device.name, device.detail, where,
                                       rate_text(device.place->gbyte_per_s))) +
                 svg::rect({x, y, 6, kCardHeight}, fmt::format("fill=\"{}\" rx=\"2\"", color)) +
                 svg::text(x + 13, y + (detail.empty() ? 23 : 16), "class=\"name\"",
                           fitted(device.name, width - 110, 13)) +
                 svg::text(kNodeWidth - 7, y + 15, "class=\"small\" text-anchor=\"end\"",
                           fitted(where, 100, 11)) +
                 svg::text(x + 13, y + 31, "", fitted(detail, width - 20, 12));
    return {y + kCardHeight / 2, y + kCardHeight};
  }

  const AffinityColors& colors_;
  std::string elements_;
};

}  // namespace

AffinityColors affinity_colors(const Machine& machine) {
  AffinityColors colors{std::vector(machine.gpus.size(), kGray),
                        std::vector(machine.nics.size(), kGray)};
  std::size_t next = 0;
  const auto is_near = [](const PciPlace& a, const PciPlace& b) {
    return distance(a, b).nearness <= Nearness::one_switch;
  };
  for (std::size_t g = 0; g < machine.gpus.size(); ++g) {
    const PciPlace& place = machine.gpus[g].place;
    for (std::size_t before = 0; before < g && colors.gpus[g] == kGray; ++before) {
      if (is_near(machine.gpus[before].place, place)) colors.gpus[g] = colors.gpus[before];
    }
    if (colors.gpus[g] == kGray) colors.gpus[g] = kPalette[next++ % kPalette.size()];
    for (std::size_t n = 0; n < machine.nics.size(); ++n) {
      if (is_near(machine.nics[n].place, place)) colors.nics[n] = colors.gpus[g];
    }
  }
  return colors;
}

Drawn draw_devices(const std::vector<ShownDevice>& devices, int node,
                   const AffinityColors& colors) {
  Tree tree(colors);
  Drawn drawn{kNodeWidth, 0};
  for (std::size_t begin = 0; begin < devices.size();) {
    std::size_t end = begin + 1;
    const PciPlace& place = *devices[begin].place;
    while (end < devices.size() && devices[end].node == devices[begin].node &&
           devices[end].place->host_bridge == place.host_bridge)
      ++end;
    if (devices[begin].node == node) {
      const double top = drawn.height > 0 ? drawn.height + 2 * kGap : 0;
      drawn.height =
          tree.draw_host_bridge(std::span(devices).subspan(begin, end - begin), top).bottom;
    }
    begin = end;
  }
  drawn.elements = tree.take();
  return drawn;
}

}  // namespace weft
