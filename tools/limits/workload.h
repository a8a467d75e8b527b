// Which operation is measured, and what one rank does in it: which inputs become its output, and
// how.
#pragma once

#include <weft/graph.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

enum class Workload : std::uint8_t {
  neighbor_allreduce,
  neighbor_allgather,
  allreduce,  // the average
  broadcast,  // from rank 0
  barrier,
  allgather,
  reduce_scatter,  // the average
  reduce,          // the average, to rank 0
  gather,          // to rank 0
  scatter,         // from rank 0
  alltoall,
  hierarchical_neighbor_allreduce,  // over a graph of machines
};

[[nodiscard]] std::string_view name(Workload collective);
// The operation of that name, or invalid_argument with the names there are.
[[nodiscard]] Result<Workload> workload(std::string_view name);

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

[[nodiscard]] Recipe recipe(Workload collective, const Graph& graph, Rank rank);
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
[[nodiscard]] CountedBytes counted_bytes(Workload collective, double bytes, int ranks,
                                         double degree);

// True if Floor can measure the least cost of this operation.
[[nodiscard]] bool has_floor(Workload collective);

// The number of output elements if each block of an input has `count` elements.
[[nodiscard]] std::size_t output_count(const Recipe& recipe, std::size_t count);

}  // namespace weft
