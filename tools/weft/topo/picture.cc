// A machine as a picture: packages side by side, each with its nodes and what hangs on their PCI;
// below, what connects GPUs, and how near network interfaces are to them.
#include "tools/weft/topo/picture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "tools/weft/topo/topo.h"
#include "topology/svg/svg.h"

namespace weft {
namespace {

constexpr double kMargin = 20;
constexpr double kPad = 12;
constexpr std::size_t kAcross = 2;  // packages in a row
constexpr std::size_t kMostPackages = 64;
constexpr int kOther = -1;  // the package of nodes and devices that have none

constexpr std::string_view kStyle = R"(<style>
text { font-size: 12px; fill: #1f2933 }
.title { font-size: 19px; font-weight: bold } .head { font-size: 15px; font-weight: bold }
.name { font-size: 13px; font-weight: bold } .small { font-size: 11px; fill: #5b6472 }
.rate { font-size: 9.5px; fill: #5b6472; text-anchor: end }
.package { fill: #f4f6f9; stroke: #b8c1cc } .memory { fill: #d5e6f7; stroke: #8fb6dd }
.cache { fill: #eef4e3; stroke: #bcd096 } .core { fill: #a9cb73 }
.gpu { fill: #e8f5e2; stroke: #8fbf7d } .nic { fill: #fdf3e1; stroke: #dcb978 }
.switch { fill: #5b6472 } .host { fill: #1f2933 } .wire { fill: none; stroke: #8a94a0; stroke-width: 1.4 }
.nvlink { fill: none; stroke: #6aa84f; stroke-opacity: 0.75 } .nvswitch { fill: #d9ecd0; stroke: #8fbf7d }
</style>
)";

// Nodes below each other, each with its devices.
Drawn draw_package(const Machine& machine, int package, const std::vector<ShownDevice>& devices,
                   const AffinityColors& colors) {
  Drawn drawn{kNodeWidth + 2 * kPad, 30};
  const auto add = [&drawn](const Drawn& part, double gap) {
    if (part.height <= 0) return;
    drawn.elements += placed(part, kPad, drawn.height);
    drawn.height += part.height + gap;
  };
  for (const NumaNode& node : machine.nodes) {
    if (node.package != package) continue;
    add(draw_node(machine, node), kPad);
    add(draw_devices(devices, node.index, colors), kPad + 6);
  }
  const std::string name =
      package == kOther ? "on no package that is known" : fmt::format("Package {}", package);
  drawn.elements = svg::rect({0, 0, drawn.width, drawn.height}, "class=\"package\" rx=\"7\"") +
                   svg::text(kPad, 20, "class=\"head\"", name) + drawn.elements;
  return drawn;
}

Drawn draw_nowhere(const std::vector<ShownDevice>& devices, const AffinityColors& colors) {
  const Drawn inner = draw_devices(devices, -1, colors);
  if (inner.height <= 0) return {};
  Drawn drawn{kNodeWidth + 2 * kPad, inner.height + 30 + kPad};
  drawn.elements = svg::rect({0, 0, drawn.width, drawn.height},
                             "class=\"package\" stroke-dasharray=\"5 4\" rx=\"7\"") +
                   svg::text(kPad, 20, "class=\"head\"", "on no node that is known") +
                   placed(inner, kPad, 30);
  return drawn;
}

// `kAcross` in a row, each row as high as its highest.
Drawn in_rows(const std::vector<Drawn>& parts) {
  Drawn all;
  double x = 0, bottom = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i % kAcross == 0) {
      x = 0;
      all.height = bottom;
    }
    all.elements += placed(parts[i], x, all.height);
    bottom = std::max(bottom, all.height + parts[i].height + kMargin);
    x += parts[i].width + kMargin;
    all.width = std::max(all.width, x - kMargin);
  }
  all.height = std::max(bottom - kMargin, 0.0);
  return all;
}

Drawn draw_packages(const Machine& machine) {
  const std::vector<ShownDevice> devices = devices_of(machine);
  const AffinityColors colors = affinity_colors(machine);
  std::vector<int> packages;
  for (const NumaNode& node : machine.nodes) {
    if (std::ranges::find(packages, node.package) == packages.end() &&
        packages.size() < kMostPackages)
      packages.push_back(node.package);
  }
  std::vector<Drawn> parts;
  for (const int package : packages)
    parts.push_back(draw_package(machine, package, devices, colors));
  if (Drawn nowhere = draw_nowhere(devices, colors); nowhere.height > 0)
    parts.push_back(std::move(nowhere));
  return in_rows(parts);
}

Drawn draw_title(const Machine& machine) {
  Drawn title{kNodeWidth, 42};
  const std::string about = summary_of(machine);
  title.elements = svg::text(0, 16, "class=\"title\"", fitted(machine.source, 2 * kNodeWidth, 23)) +
                   svg::text(0, 36, "", fitted(about, 2 * kNodeWidth, 12));
  return title;
}

Drawn draw_footer(const Machine& machine) {
  Drawn footer{kNodeWidth, 0};
  const auto add = [&footer](std::string_view what, const std::vector<std::string>& all) {
    if (all.empty()) return;
    footer.height += 17;
    footer.elements +=
        svg::text(0, footer.height - 4, "class=\"small\"",
                  fitted(fmt::format("{}: {}", what, fmt::join(all, "; ")), 2 * kNodeWidth, 11));
  };
  add("unknown", unknown_in(machine));
  for (const Remark& remark : remarks_on(machine)) add(remark.about, remark.phrases);
  return footer;
}

}  // namespace

std::string placed(const Drawn& part, double x, double y) {
  return svg::group(fmt::format("transform=\"translate({:.1f},{:.1f})\"", x, y), part.elements);
}

std::string fitted(std::string_view text, double width, double font) {
  const auto room = static_cast<std::size_t>(std::max(width / (0.54 * font), 1.0));
  if (text.size() <= room) return std::string(text);
  std::size_t end = room - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
    --end;  // not inside a character
  return std::string(text.substr(0, end)) + "…";
}

std::string machine_svg(const Machine& machine) {
  Drawn page;
  double y = kMargin;
  for (const Drawn& part : {draw_title(machine), draw_packages(machine), draw_gpu_links(machine),
                            draw_distances(machine), draw_footer(machine)}) {
    if (part.height <= 0) continue;
    page.elements += placed(part, kMargin, y);
    page.width = std::max(page.width, part.width + 2 * kMargin);
    y += part.height + kMargin;
  }
  return svg::document({0, 0, page.width, y}, std::string(kStyle) + page.elements);
}

}  // namespace weft
