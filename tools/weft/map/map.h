// What `weft map` shows. Internal to the command.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tools/weft/common/lanes.h"
#include "tools/weft/map/lanes.h"
#include "topology/rails/rails.h"

namespace weft {

// A graph on a cluster.
struct ShownMap {
  const Cluster& cluster;
  const Graph& graph;
  MapOptions options;
  Placement placement;
  std::optional<FoundPlacement> search;  // if one was made
  RailMap map;
  CombiningWork work;
  LaneAdvice advice;                                    // 1 lane: no other number of them
  std::vector<std::pair<RailPolicy, double>> other_us;  // what an exchange takes by other policies
  std::vector<double> measured_us;                      // by edge, alone; empty: not measured
  bool is_complete =
      true;  // false: Ctrl-C ended the search for seats, and these are the best so far

  // One exchange: lanes combine while links carry, so the longer of both counts.
  [[nodiscard]] double us() const { return std::max(map.us, work.us); }
};

// Of a machine, on a rail that it is on.
[[nodiscard]] std::string interface_name(const Cluster& cluster, int rail, int machine);

// By machine: does it have a rank?
[[nodiscard]] std::vector<bool> used_machines(const ShownMap& shown);

// Ranks, edges, links and seats as tables; of the long ones the first lines only, unless `all`.
[[nodiscard]] std::string map_text(const ShownMap& shown, bool all);
// One JSON object.
[[nodiscard]] std::string map_json(const ShownMap& shown);
// Machines with their ranks and interfaces, and above them the rails' switches; lines are as wide
// and as red as the link is busy. What carries no rank is left out. At most kMostDrawn machines.
inline constexpr int kMostDrawn = 64;
[[nodiscard]] std::string map_svg(const ShownMap& shown);

}  // namespace weft
