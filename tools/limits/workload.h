// Which operation is measured, and what one rank does in it: which inputs become its output, and
// how.
#pragma once

#include <weft/graph.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/plan/plan.h"
#include "scheduler/vocabulary/vocabulary.h"
#include "verbs/base/base.h"

namespace weft {

// Whether operations of this kind are measured and predicted. Roots are rank 0; reductions are averages.
[[nodiscard]] constexpr bool is_measured(Collective collective) {
  return !has<kOfSomeRanks>(collective) && collective != Collective::local_allreduce;
}
// "neighbor_allreduce, neighbor_allgather, …".
[[nodiscard]] std::string measured_names();
// The operation of that name, or invalid_argument with the names there are.
[[nodiscard]] Result<Collective> measured_operation(std::string_view name);

// What one rank reads in an operation, without saying how.
struct Recipe {
  struct Source {
    Rank rank = 0;
    double weight = 1;
  };
  std::vector<Source>
      sources;                // ascending by rank; the rank itself included where its input counts
  std::vector<Rank> readers;  // the other ranks that read this rank's input
  bool concatenates = false;  // the sources follow each other in the output, unweighted
  // Each input has this many equal blocks, and this rank uses the block with its own number.
  std::uint32_t blocks = 1;
};

[[nodiscard]] Recipe recipe(Collective collective, const Graph& graph, Rank rank);
// The recipe of a rank in an operation over a graph of machines. `machines` is the recipe of the
// rank's machine. The value of a machine is the average over its ranks. `machine_of` has the
// machine of each rank.
[[nodiscard]] Recipe over_machines(const Recipe& machines, const std::vector<int>& machine_of);

// The bytes by which an operation's two bandwidths count, as NCCL's tests define them (nccl-tests,
// doc/PERFORMANCE.md). Over the time of the operation, `algorithm` gives what they call algbw and `bus`
// gives busbw. docs/performance.md has the table.
struct CountedBytes {
  double algorithm =
      0;           // the size of the operation: for those on blocks that of all blocks together
  double bus = 0;  // what the interfaces of the busiest rank must carry in one direction
};
// `bytes`: of a rank's input, or of its block for each rank. `degree` counts for neighbors' operations
// only: the in-neighbors of the rank that has most (hierarchical: of the machine); of a schedule, the
// mean over its steps.
[[nodiscard]] CountedBytes counted_bytes(Collective collective, double bytes, int ranks,
                                         double degree);

// True if Floor can measure the least cost of this operation.
[[nodiscard]] bool has_floor(Collective collective);

// What the plans of an operation depend on.
struct PlannedCase {
  int size = 1;
  std::size_t bytes = 0;  // of a rank's input, or of its block for each rank
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic;
  const Layout& layout;
  std::span<const View> views;  // of ranks, or of machines; operations on a graph only
  Bits bits = Bits::automatic;
};
[[nodiscard]] Planned planned(Collective collective, Rank rank, const PlannedCase& of);

// The number of output elements if each block of an input has `count` elements.
[[nodiscard]] std::size_t output_count(const Recipe& recipe, std::size_t count);

}  // namespace weft
