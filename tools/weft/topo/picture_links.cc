// What connects GPUs: they stand in a row, a connection is an arc above it, a switch a bar below.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/weft/topo/picture.h"
#include "topology/svg/svg.h"

namespace weft {
namespace {

constexpr double kGpuStep = 96;

double height_of(double from, double to) {
  return std::min(30 + 0.28 * std::abs(to - from), 150.0);
}

// The arc from one GPU to another, above their row; as thick as it has lanes.
std::string arc(double from, double to, double y, const GpuLink& link) {
  const double top = y - height_of(from, to);
  const double thick = std::clamp(1 + 0.25 * link.lanes, 1.0, 6.0);
  const std::string title = fmt::format("GPU {} to GPU {}: {} lanes{}", link.gpu, link.peer,
                                        link.lanes, rate_text(link.gbyte_per_s));
  return svg::path(fmt::format("M{0:.1f},{1:.1f} C{0:.1f},{2:.1f} {3:.1f},{2:.1f} {3:.1f},{1:.1f}",
                               from, y, top, to),
                   fmt::format("class=\"nvlink\" stroke-width=\"{:.1f}\"", thick), title) +
         // A curve like this reaches three quarters of the way to where it bends.
         svg::text((from + to) / 2, y - 0.75 * (y - top) - 4,
                   "class=\"small\" text-anchor=\"middle\"", fmt::format("{}", link.lanes));
}

// A link that both GPUs report is one connection.
std::vector<GpuLink> once_each(const Machine& machine) {
  std::map<std::pair<int, int>, GpuLink> links;
  for (const GpuLink& link : machine.gpu_links) {
    const auto [low, high] = std::minmax({link.gpu, link.peer});
    links.emplace(std::pair(low, high), link);
  }
  std::vector<GpuLink> found;
  for (const auto& [ends, link] : links) found.push_back(link);
  return found;
}

double highest_arc(const std::vector<GpuLink>& links, const std::map<int, double>& centers) {
  double highest = 0;
  for (const GpuLink& link : links) {
    const auto from = centers.find(link.gpu), to = centers.find(link.peer);
    if (from != centers.end() && to != centers.end())
      highest = std::max(highest, height_of(from->second, to->second));
  }
  return 0.75 * highest + (highest > 0 ? 10 : 0);
}

std::string draw_switch_link(double x, double row, const GpuLink& link) {
  const std::string rate = link.gbyte_per_s > 0 ? fmt::format("{:.4g} GB/s", link.gbyte_per_s) : "";
  return svg::line(x, row + 24, x, row + 62, "class=\"nvlink\" stroke-width=\"4\"") +
         svg::text(x + 6, row + 40, "class=\"small\"", fmt::format("{} lanes", link.lanes)) +
         svg::text(x + 6, row + 53, "class=\"small\"", rate);
}

}  // namespace

Drawn draw_gpu_links(const Machine& machine) {
  if (machine.gpu_links.empty()) return {};
  std::map<int, double> centers;
  for (const Gpu& gpu : machine.gpus) {
    if (centers.size() < kMostShown)
      centers.emplace(gpu.index, kGpuStep * (0.5 + static_cast<double>(centers.size())));
  }
  const std::vector<GpuLink> links = once_each(machine);
  const double arcs = highest_arc(links, centers);
  const double row = 30 + arcs;
  Drawn drawn{
      kGpuStep * static_cast<double>(centers.size()), row + 30,
      svg::text(0, 16, "class=\"head\"", std::string(name(machine.gpu_links.front().kind))) +
          svg::text(70, 16, "class=\"small\"", arcs > 0 ? "numbers are lanes" : "")};
  bool has_switch = false;
  for (const GpuLink& link : links) {
    const auto from = centers.find(link.gpu), to = centers.find(link.peer);
    if (from == centers.end()) continue;
    if (to != centers.end()) drawn.elements += arc(from->second, to->second, row, link);
    if (link.peer == GpuLink::kSwitch) drawn.elements += draw_switch_link(from->second, row, link);
    has_switch = has_switch || link.peer == GpuLink::kSwitch;
  }
  for (const auto& [index, x] : centers) {
    drawn.elements += svg::rect({x - 30, row, 60, 24}, "class=\"gpu\" rx=\"4\"") +
                      svg::text(x, row + 16, "text-anchor=\"middle\" class=\"name\"",
                                fmt::format("GPU {}", index));
  }
  if (!has_switch) return drawn;
  drawn.elements +=
      svg::rect({0, row + 62, drawn.width, 26}, "class=\"nvswitch\" rx=\"4\"") +
      svg::text(drawn.width / 2, row + 79, "text-anchor=\"middle\" class=\"name\"", "NVSwitch");
  drawn.height = row + 92;
  return drawn;
}

}  // namespace weft
