// The parts of a machine's picture. Each part is drawn at the origin and has a size; the caller puts
// it in its place. Internal to the command.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/weft/topo/devices.h"
#include "topology/hardware/hardware.h"

namespace weft {

struct Drawn {
  double width = 0;
  double height = 0;
  std::string elements{};
};

// `part` with its corner at (x, y).
[[nodiscard]] std::string placed(const Drawn& part, double x, double y);
// About as many characters as fit, the last an ellipsis where some do not.
[[nodiscard]] std::string fitted(std::string_view text, double width, double font);

// Width of a node's box, and of all that stands in it.
inline constexpr double kNodeWidth = 470;

// picture_nodes.cc: memory, caches and cores of a node.
[[nodiscard]] Drawn draw_node(const Machine& machine, const NumaNode& node);

// picture_pci.cc: the tree of a node's devices (-1: those on no node); empty: it has none.
// `colors`: by position, of each GPU and NIC; equal ones are below one switch.
struct AffinityColors {
  std::vector<std::string_view> gpus;
  std::vector<std::string_view> nics;
};
[[nodiscard]] AffinityColors affinity_colors(const Machine& machine);
[[nodiscard]] Drawn draw_devices(const std::vector<ShownDevice>& devices, int node,
                                 const AffinityColors& colors);

// GPUs or network interfaces that are drawn in a row at most. With more nobody could read the picture;
// `weft topo --json` has all of them.
inline constexpr std::size_t kMostShown = 64;

// picture_links.cc: links between GPUs; empty: no link is known.
[[nodiscard]] Drawn draw_gpu_links(const Machine& machine);

// picture_distances.cc
// Network interfaces down, GPUs and nodes across; empty: there is no interface.
[[nodiscard]] Drawn draw_distances(const Machine& machine);

}  // namespace weft
