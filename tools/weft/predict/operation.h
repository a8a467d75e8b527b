// The operations that `weft predict` knows: their plans, their operands, and what the network could
// do at best. Internal to the command.
#pragma once

#include <weft/graph.h>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/simulate/simulate.h"
#include "tools/limits/limits.h"

namespace weft {

// Does the graph matter?
[[nodiscard]] bool is_on_graph(Collective operation);

// Some ranks of a cluster, and who talks to whom: one list of views for a graph, one for each step
// of a schedule. Of machines where the operation is one between machines.
struct PredictScene {
  Cluster cluster;
  Placement placement;
  RailUse rails;
  Layout layout;
  std::vector<std::vector<View>> steps;

  [[nodiscard]] int ranks() const { return static_cast<int>(placement.seat.size()); }
};
[[nodiscard]] Result<PredictScene> set_scene(Cluster cluster, Placement placement,
                                             RailPolicy policy, std::string_view graph,
                                             Collective operation);

// A machine's interface on a rail, gone.
struct LostRail {
  int machine = 0;
  int rail = 0;
};
// The scene without these. Ranks plan for what is left, as the engine does once they agree on it (Layout::left).
[[nodiscard]] Result<PredictScene> without(PredictScene scene, const std::vector<LostRail>& lost,
                                           RailPolicy policy);

// An algorithm of allreduce, by the name that it was asked for: some have two.
struct AskedAlgorithm {
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic;
  std::string name;
};

// One thing to predict: an operation of so many bytes (of one rank's input, as `weft perf` counts
// them), by an algorithm where there are several.
struct PredictedCase {
  Collective operation = Collective::allreduce;
  AskedAlgorithm by;
  std::size_t bytes = 0;
  int lanes = 1;  // of each rank
  Bits bits = Bits::automatic;

  // "allreduce ring"
  [[nodiscard]] std::string text() const;
};
// Whether there are plans for it on these machines; the error says what they would need.
[[nodiscard]] Status check(const PredictedCase& of, const PredictScene& scene);
[[nodiscard]] std::function<Planned(Rank)> plans_of(const PredictedCase& of,
                                                    const PredictScene& scene, std::size_t step);
[[nodiscard]] OperandBytes operands_of(const PredictedCase& of, const PredictScene& scene);

// The bytes of its two bandwidths.
[[nodiscard]] CountedBytes counted_bytes(const PredictedCase& of, const PredictScene& scene);
// What no plan can beat on this network: the bytes that must leave or enter a machine over all its
// interfaces' rate, or those that must enter all machines together over the rate of all. 0: not
// known.
[[nodiscard]] double ideal_us(const PredictedCase& of, const PredictScene& scene);

}  // namespace weft
