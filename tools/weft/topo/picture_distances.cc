// How near network interfaces are to GPUs and nodes, as a table in colors.
#include <fmt/format.h>

#include <algorithm>

#include "tools/weft/topo/picture.h"
#include "topology/svg/svg.h"

namespace weft {
namespace {

constexpr double kCellWidth = 52, kCellHeight = 24;
constexpr double kTop = 34;  // below the part's title

struct Paint {
  std::string_view fill, ink;
};

Paint paint_of(Nearness nearness) {
  switch (nearness) {
    case Nearness::same_device:
      return {"#14683d", "#ffffff"};
    case Nearness::one_switch:
      return {"#2e9e5b", "#ffffff"};
    case Nearness::switches:
      return {"#8cc665", "#1f2933"};
    case Nearness::host_bridge:
      return {"#e6d96b", "#1f2933"};
    case Nearness::numa_node:
      return {"#f3b573", "#1f2933"};
    case Nearness::package:
      return {"#e5a08f", "#1f2933"};
    case Nearness::machine:
      return {"#e3e6ea", "#5b6472"};
  }
  return {};
}

std::string cell(double x, double y, Nearness nearness, std::string_view title) {
  const Paint paint = paint_of(nearness);
  return svg::rect({x, y, kCellWidth - 2, kCellHeight - 2},
                   fmt::format("fill=\"{}\" rx=\"3\"", paint.fill), title) +
         svg::text(
             x + kCellWidth / 2 - 1, y + 15,
             fmt::format("text-anchor=\"middle\" class=\"small\" style=\"fill:{}\"", paint.ink),
             name(nearness));
}

Drawn draw_legend() {
  Drawn legend;
  for (const Nearness nearness : {Nearness::one_switch, Nearness::switches, Nearness::host_bridge,
                                  Nearness::numa_node, Nearness::package, Nearness::machine}) {
    legend.elements +=
        cell(0, legend.height, nearness, "") +
        svg::text(kCellWidth + 4, legend.height + 15, "class=\"small\"", description(nearness));
    legend.height += kCellHeight;
  }
  legend.width = kCellWidth + 250;
  return legend;
}

std::string distance_row(const Machine& machine, const Nic& nic, double x, double y,
                         std::size_t gpus, std::size_t nodes) {
  std::string row;
  for (std::size_t g = 0; g < gpus; ++g, x += kCellWidth) {
    const Gpu& gpu = machine.gpus[g];
    const Distance far = distance(nic.place, gpu.place);
    row += cell(x, y, far.nearness,
                fmt::format("{} to GPU {}: {}{}", nic.name(), gpu.index, description(far.nearness),
                            rate_text(far.gbyte_per_s)));
  }
  for (std::size_t n = 0; n < nodes; ++n, x += kCellWidth)
    row += cell(x, y, distance(nic.place, machine.nodes[n]), "");
  return row;
}

}  // namespace

Drawn draw_distances(const Machine& machine) {
  if (machine.nics.empty()) return {};
  const std::size_t nics = std::min(machine.nics.size(), kMostShown);
  const std::size_t gpus = std::min(machine.gpus.size(), kMostShown);
  const std::size_t nodes = std::min(machine.nodes.size(), kMostShown);
  constexpr double kNames = 110;
  Drawn drawn{kNames + kCellWidth * static_cast<double>(gpus + nodes), kTop + 18};
  drawn.elements = svg::text(0, 16, "class=\"head\"", "How near");
  for (std::size_t i = 0; i < gpus + nodes; ++i) {
    const std::string label = i < gpus ? fmt::format("GPU {}", machine.gpus[i].index)
                                       : fmt::format("node {}", machine.nodes[i - gpus].index);
    drawn.elements += svg::text(kNames + kCellWidth * (static_cast<double>(i) + 0.5) - 1, kTop + 10,
                                "text-anchor=\"middle\" class=\"small\"", label);
  }
  for (std::size_t i = 0; i < nics; ++i) {
    const Nic& nic = machine.nics[i];
    drawn.elements += svg::text(kNames - 8, drawn.height + 15, "text-anchor=\"end\" class=\"name\"",
                                fitted(nic.name(), kNames - 10, 13)) +
                      distance_row(machine, nic, kNames, drawn.height, gpus, nodes);
    drawn.height += kCellHeight;
  }
  if (nics < machine.nics.size() || gpus < machine.gpus.size() || nodes < machine.nodes.size()) {
    drawn.elements += svg::text(0, drawn.height + 15, "class=\"small\"",
                                fmt::format("the first {} of each kind", kMostShown));
    drawn.height += kCellHeight;
  }
  const Drawn legend = draw_legend();
  drawn.elements += placed(legend, drawn.width + 24, kTop + 18);
  drawn.width += legend.width + 24;
  drawn.height = std::max(drawn.height, kTop + 18 + legend.height);
  return drawn;
}

}  // namespace weft
