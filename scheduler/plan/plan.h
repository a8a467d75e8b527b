// plan: a collective as plain data.
//
// A Plan is one rank's straight-line program for one collective: send this slice along those edges,
// combine what arrives with what is here into that slice, and so on. It is a *shape*: peers are
// indices into the rank's View, sizes are fractions of the operand, weights are names bound at each
// call. So one plan serves every call with the same shape, whatever the ranks, sizes and weights of
// the moment, and the same plan is moved by the executor, proved by the verifier, timed by the
// simulator and drawn.
//
// How a program runs (the contract between planners and everything that consumes plans):
//  - Steps start in order. A combine ends before the next step starts. A send *starts* at its place
//    and proceeds in the background: its source must not be written again until the send's readers
//    are done.
//  - Messages between two ranks arrive in the order sent; the k-th message that rank i's program
//    sends to rank j is the k-th that rank j's program takes from rank i, and both name the same
//    number of elements.
//  - Between ranks of one machine a large message is *read in place* by its receiver while the
//    receiver's combine runs. A combine that overwrites a slice which was sent before therefore
//    lists that send as a hazard: it waits until all readers of that send are done. verify() proves
//    that no hazard is missing.
//  - The plan ends when all steps ended and all sends' readers are done.
//
// Values only, no thread, no clock; everything here is thread safe for concurrent reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

// Whom a rank talks to in one operation: in-peers may send to it, out-peers are sent to; both
// ascending.
struct View {
  Rank rank = 0;
  int size = 1;
  std::vector<Rank> in;
  std::vector<Rank> out;
};

enum class Buffer : std::uint8_t { input, output, scratch };
inline constexpr int kBuffers = 3;

// How a buffer is cut in blocks. even: block b of `blocks` over n elements is [b*n/blocks,
// (b+1)*n/blocks), in 64-byte units where n allows (see block_range), so that two ranks agree
// without talking. given: the caller states each block's elements (gatherings and scatterings with
// unequal parts); a given scratch is cut as the buffer that it is a scratch of. none: the plan does
// not use the buffer.
struct Partition {
  enum class Kind : std::uint8_t { none, even, given };
  Kind kind = Kind::none;
  std::uint32_t blocks = 0;
};

struct Range {
  std::size_t offset = 0;  // elements
  std::size_t count = 0;   // elements
};

// Block `block` of `blocks` even parts of `elements`. Blocks are contiguous, disjoint, cover
// everything and differ by at most one grain; cuts lie on multiples of `grain` elements (one cache
// line) except the end.
[[nodiscard]] Range block_range(std::size_t elements, std::size_t grain, std::uint32_t blocks,
                                std::uint32_t block);

// Blocks first … last-1 of a buffer. first == last is the empty slice: a message that carries only
// its notice.
struct Slice {
  Buffer buffer = Buffer::input;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  friend bool operator==(const Slice&, const Slice&) = default;
};

// The name of a weight; its value is bound at the call.
struct Weight {
  enum class Kind : std::uint8_t {
    one,    // 1
    self,   // w_ii
    edge,   // w_ij of in-edge `index`: receive side times send side
    scale,  // one factor for the whole operation: 1/n of an average, else 1
  };
  Kind kind = Kind::one;
  std::uint32_t index = 0;
  friend bool operator==(const Weight&, const Weight&) = default;
};

// One term of a combine: a local slice, or the next message of an in-edge.
struct Operand {
  enum class Kind : std::uint8_t { local, message };
  Kind kind = Kind::local;
  Slice slice;             // local: what is read. message: unused, the size is the destination's
  std::uint32_t edge = 0;  // message: index into View::in
  Weight weight;
};

// What a combine does with its terms. copy: the one term, unweighted. weighted: the weighted sum.
// reduce: the reduction operator of the call (sum, min, …) with the weights ignored, or, where the
// call's operator is an average or a sum of floating type, the weighted sum.
enum class Combining : std::uint8_t { copy, weighted, reduce };

// send: `slice` goes to each of edges[first … first+count). combine: slice := operands[first …
// first+count) in that order (planners list them in rank order, so results have the same bits in
// every run), after the readers of the sends steps[hazards[hazard_first …
// hazard_first+hazard_count)] are done. A combine whose slice is empty only waits for its messages.
struct Step {
  enum class Kind : std::uint8_t { send, combine };
  Kind kind = Kind::send;
  Combining combining = Combining::copy;
  Slice slice;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t hazard_first = 0;
  std::uint32_t hazard_count = 0;
};

struct Plan {
  std::string_view operation;  // "neighbor_allreduce", …: a string literal
  std::string_view algorithm;  // "direct", "ring", …: a string literal
  std::string reason;          // why this algorithm, for people
  std::uint32_t in_degree = 0;
  std::uint32_t out_degree = 0;
  Partition partition[kBuffers];  // by Buffer. An even scratch has as many elements as `scratch_of`
  Buffer scratch_of = Buffer::input;
  std::vector<Step> steps;
  std::vector<std::uint32_t> edges;  // indices into View::out
  std::vector<Operand> operands;
  std::vector<std::uint32_t> hazards;  // indices of send steps
  // By out-edge: which of Layout::rails its large messages should take, so that edges that are used
  // at once do not share one; or kAnyRail. Empty: that for all.
  std::vector<int> rails;
  // Says of the steps above: all sends stand before the first combine that takes a message, and
  // each edge carries one message at most. So where sends are copied at once, a rank posts what it
  // has, waits for all that it gets, and is done.
  bool is_one_round = false;

  [[nodiscard]] const Partition& partition_of(Buffer b) const {
    return partition[static_cast<std::size_t>(b)];
  }
};

// A plan together with the peers that its edge indices mean: what planners of operations over all
// ranks give.
struct Planned {
  View view;
  Plan plan;
};

// How the caller's memory is used; part of the plan's shape.
struct Shape {
  // Input and output are the same memory; where one is a rank's block of the other (allgather,
  // reduce_scatter, gather and scatter at the root) it lies there.
  bool in_place = false;
};

// Where the ranks are, for algorithms that make use of it; the same at all ranks.
struct Layout {
  std::vector<int> machine;  // by rank; numbered by their lowest rank. Empty: all on one
  int rails = 1;             // that connect the machines: so many ways can be busy at once
  // By rank: the one of them that is near the rank and that it has as few others on as can be, or
  // kAnyRail where there is no such one. Empty: nothing is known of distances.
  std::vector<int> near = {};

  [[nodiscard]] int machine_of(Rank rank) const {
    return machine.empty() ? 0 : machine[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] int machines() const;
};

enum class AllreduceAlgorithm : std::uint8_t {
  automatic,
  direct,  // everyone reads everyone: one phase, (n-1) M in, for small messages
  split,   // rank r reduces block r of everybody, everybody copies it: two phases, 2 M (n-1)/n
  ring,    // 2(n-1) phases with one neighbor each
  halving_doubling,  // 2 log2 n phases; extra ranks of a size that is no power of two fold in first
  bcube,         // n = a^b: b parts at once, each over the b levels in another order (Canary, 4.4)
  torus,         // rings along each dimension, a part at once for each
  multi_ring,    // a ring for each rail, over another order of the ranks where there is one
  hierarchical,  // reduced to shares inside each machine, shares between machines, gathered inside
};
[[nodiscard]] std::string_view name(AllreduceAlgorithm algorithm);
// An algorithm's name as name() gives it, "mesh" (what Canary calls split), or "auto".
[[nodiscard]] Result<AllreduceAlgorithm> allreduce_algorithm(std::string_view name);
// Whether an algorithm can be used with so many ranks, placed so; the error says what it needs.
[[nodiscard]] Status check_allreduce(AllreduceAlgorithm algorithm, int size, const Layout& layout);

// neighbor_allreduce: y = w_ii x + sum over in-edges of w_ij x_j, in rank order. A pure function of
// the view.
[[nodiscard]] Plan plan_neighbor_allreduce(const View& view, Shape shape);
// neighbor_allgather: output block k := the input of in-edge k. Output partition `given`.
[[nodiscard]] Plan plan_neighbor_allgather(const View& view, Shape shape);
// allreduce over ranks 0 … size-1. `automatic` chooses by bytes, size and layout and says why in
// Plan::reason. What check_allreduce() refuses must not be asked for.
[[nodiscard]] Planned plan_allreduce(Rank rank, int size, std::size_t bytes, Shape shape,
                                     AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic,
                                     const Layout& layout = {});
// hierarchical_neighbor_allreduce: x averaged inside each machine, then y := the weighted sum of
// the machines' means over the machine's in-neighbors, the same bits on all ranks of a machine.
// `machines`: rank is our machine, in and out its neighbors among machines. Weight::Kind::self is
// the machine's own weight; the weight of an edge to a rank of another machine is that of the
// machine; edges inside the machine have none. Machines may have different numbers of ranks, as far
// as the check allows; the scale is 1 / the number of the own machine's.
[[nodiscard]] Status check_hierarchical_neighbor_allreduce(const Layout& layout);
[[nodiscard]] Planned plan_hierarchical_neighbor_allreduce(Rank rank, const Layout& layout,
                                                           const View& machines, Shape shape);
// broadcast of the root's input to everybody's output; the root's own output included unless in
// place.
[[nodiscard]] Planned plan_broadcast(Rank rank, int size, Rank root, std::size_t bytes,
                                     Shape shape);
// barrier: nobody leaves before everybody came; messages are empty.
[[nodiscard]] Planned plan_barrier(Rank rank, int size);

// allgather: output block r := the input of rank r, at every rank; `bytes` of the output. Output
// partition `given`, a block for each rank.
[[nodiscard]] Planned plan_allgather(Rank rank, int size, std::size_t bytes, Shape shape);
// reduce_scatter: output := the reduction of everybody's input block `rank`; `bytes` of the input.
// Input partition `given`, a block for each rank.
[[nodiscard]] Planned plan_reduce_scatter(Rank rank, int size, std::size_t bytes, Shape shape);
// reduce: the root's output := the reduction of everybody's input. The others have no output.
[[nodiscard]] Planned plan_reduce(Rank rank, int size, Rank root, std::size_t bytes, Shape shape);
// gather: the root's output block r := the input of rank r. The others have no output.
[[nodiscard]] Planned plan_gather(Rank rank, int size, Rank root, Shape shape);
// scatter: output := the root's input block `rank`. The others' input is not used.
[[nodiscard]] Planned plan_scatter(Rank rank, int size, Rank root, Shape shape);
// alltoall: output block r := rank r's input block `rank`. Both partitions `given`, a block for
// each rank. In place needs equal blocks in both directions between each two ranks.
[[nodiscard]] Planned plan_alltoall(Rank rank, int size, Shape shape);

// Operations of some ranks; the others have no part in them.
// send: the input to the one out-peer. receive: the one in-peer's input to the output.
[[nodiscard]] Plan plan_send(const View& view);
[[nodiscard]] Plan plan_receive(const View& view);
// pair_average: y = w_ii x + w_ij x_j with the one peer, in rank order.
[[nodiscard]] Plan plan_pair_average(const View& view, Shape shape);
// group_average: the mean over `size` ranks. The view counts places in the group, not ranks.
[[nodiscard]] Planned plan_group_average(int place, int size, std::size_t bytes, Shape shape);

// A plan as lines for people: one for the plan, one for each step. `view` names the peers.
[[nodiscard]] std::string to_text(const Plan& plan, const View& view);

}  // namespace weft
