// plan: a collective as plain data.
//
// A Plan is one rank's program for one collective, without branches and loops: send this slice
// along those edges, combine what arrives with local data into that slice, and so on. A plan is a
// *shape*: peers are indices into the rank's View, sizes are fractions of the operand, and weights
// are names that are bound at each call. One plan therefore serves every call of the same shape,
// for any ranks, sizes and weights. The executor runs the plan, the verifier proves it correct, the
// simulator predicts its time, and the tools draw it.
//
// How a program runs (the contract between planners and everything that consumes plans):
//  - Steps start in order. A combine ends before the next step starts. A send starts in its turn
//    and proceeds in the background. Its source must not be written again until all readers of the
//    send are done.
//  - Messages between two ranks arrive in the order sent. The k-th message that rank i's program
//    sends to rank j is the k-th that rank j's program takes from rank i, and both steps name the
//    same number of elements.
//  - Between ranks of one machine the receiver reads a large message in place, while its combine
//    runs. If a combine overwrites a slice that was sent before, it lists that send as a hazard and
//    waits until all readers of the send are done. verify() proves that no hazard is missing.
//  - The plan ends when all steps have ended and the readers of all sends are done.
//
// Values only, without threads and clocks. Any number of threads may read them at the same time.
#pragma once

#include <weft/layout.h>
#include <weft/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

// The peers of a rank in one operation, in ascending order. `in` may send to this rank; this rank
// sends to `out`.
struct View {
  Rank rank = 0;
  int size = 1;
  std::vector<Rank> in;
  std::vector<Rank> out;
};

enum class Buffer : std::uint8_t { input, output, scratch };
inline constexpr int kBuffers = 3;

// How a buffer is cut into blocks.
//  - even: block b of `blocks` blocks over n elements is [b*n/blocks, (b+1)*n/blocks), in units of
//    64 bytes if n allows it (see block_range). Two ranks thus agree without talking.
//  - given: the caller states the elements of each block, as in a gather of unequal parts. A
//    scratch buffer with this kind is cut like the buffer that Plan::scratch_of names.
//  - none: the plan does not use the buffer.
struct Partition {
  enum class Kind : std::uint8_t { none, even, given };
  Kind kind = Kind::none;
  std::uint32_t blocks = 0;
};

struct Range {
  std::size_t offset = 0;  // elements
  std::size_t count = 0;   // elements
};

// Block `block` of `blocks` even parts of `elements`. The blocks are contiguous and disjoint, cover
// all elements, and differ by at most one grain. Each cut is at a multiple of `grain` elements (one
// cache line); only the end need not be.
[[nodiscard]] Range block_range(std::size_t elements, std::size_t grain, std::uint32_t blocks,
                                std::uint32_t block);

// Blocks first … last-1 of a buffer. If first == last the slice is empty: its message consists of
// the notice only.
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
    scale,  // one factor for the whole operation: of an average a power of two, else 1
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

// What a combine does with its terms.
//  - copy: it has one term, and copies it without a weight.
//  - weighted: the weighted sum.
//  - reduce: the reduction operator of the call (sum, min, …), without the weights. If the operator
//    is an average, or a sum of a floating type, the weighted sum.
enum class Combining : std::uint8_t { copy, weighted, reduce };

// One step of a plan.
//  - send: `slice` goes to each of edges[first … first+count). `combining` is that of the combines
//    that take the message, so that the sender knows how its memory will be read.
//  - combine: slice := operands[first … first+count), combined in this order. Planners list
//    operands in rank order, so that results have the same bits in every run. The combine starts
//    when the readers of the sends steps[hazards[hazard_first … hazard_first+hazard_count)] are
//    done. If its slice is empty it only waits for its messages.
struct Step {
  enum class Kind : std::uint8_t { send, combine };
  Kind kind = Kind::send;
  Combining combining = Combining::copy;
  Slice slice;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t hazard_first = 0;
  std::uint32_t hazard_count = 0;
  // A combine whose result has the contributions of all ranks, or of all of a machine where a mean of
  // the machine is meant. An average is divided here.
  bool is_whole = false;
};

struct Plan {
  std::string_view operation;  // "neighbor_allreduce", …: a string literal
  std::string_view algorithm;  // "direct", "ring", …: a string literal
  std::string reason;          // why this algorithm, for people
  std::uint32_t in_degree = 0;
  std::uint32_t out_degree = 0;
  Partition partition[kBuffers];  // by Buffer; an even scratch is as large as `scratch_of`
  Buffer scratch_of = Buffer::input;
  std::vector<Step> steps;
  std::vector<std::uint32_t> edges;  // indices into View::out
  std::vector<Operand> operands;
  std::vector<std::uint32_t> hazards;  // indices of send steps
  // By out-edge: the number (below Layout::rails) of the rail that its large messages should take,
  // so that edges which are used at the same time do not share a rail; or kAnyRail. Empty: kAnyRail
  // for all edges.
  std::vector<int> rails;
  // True if all sends stand before the first combine that takes a message, and each edge carries at
  // most one message. If all messages are small enough to be copied, a rank can then post what it
  // has, wait for everything that it gets, and combine.
  bool is_one_round = false;

  [[nodiscard]] const Partition& partition_of(Buffer b) const {
    return partition[static_cast<std::size_t>(b)];
  }
};

// A plan together with the peers that its edge indices stand for. Planners of operations over all
// ranks return it.
struct Planned {
  View view;
  Plan plan;
};

// How the caller's memory is used; part of the plan's shape.
struct Shape {
  // Input and output are the same memory. In operations where one is a rank's block of the other
  // (allgather, reduce_scatter, gather and scatter at the root), it lies in that block.
  bool in_place = false;
  // The elements are of a type that is summed in a wider one (f16, bf16, e4m3, e5m2).
  bool is_narrow = false;
};

// Bits::fixed: of operations that sum, only plans in which each element becomes the sum of the inputs of all
// ranks in their order: at one rank, or at several that pass the sum on. So whatever the plan, the bits are
// those of that sum.

// Ok if an algorithm can be used with `size` ranks on these machines; else the error says what it
// needs.
[[nodiscard]] Status check_allreduce(AllreduceAlgorithm algorithm, int size, const Layout& layout);
// The algorithms of an allreduce by the bytes of its input, as text "direct:16384,auto:262144,ring": each up to so many
// bytes, the last one, which has no number, for all above. `automatic` stands for the choice by rule.
class AllreduceTable {
 public:
  AllreduceTable() = default;  // automatic, for all
  // invalid_argument: the text is no such list.
  [[nodiscard]] static Result<AllreduceTable> parse(std::string_view text);
  [[nodiscard]] AllreduceAlgorithm at(std::size_t bytes) const;
  [[nodiscard]] bool is_by_rule() const { return rows_.empty(); }

 private:
  struct Row {
    std::size_t most_bytes;
    AllreduceAlgorithm algorithm;
  };
  std::vector<Row> rows_;  // ascending; the last one has the highest number there is
};
// Ok if an algorithm can give such bits.
[[nodiscard]] Status check_bits(AllreduceAlgorithm algorithm, Bits bits);

// neighbor_allreduce: y = w_ii x + sum over in-edges of w_ij x_j, in rank order. A pure function of
// the view.
[[nodiscard]] Plan plan_neighbor_allreduce(const View& view, Shape shape);
// neighbor_allgather: output block k := the input of in-edge k. Output partition `given`.
[[nodiscard]] Plan plan_neighbor_allgather(const View& view, Shape shape);
// allreduce over ranks 0 … size-1. `automatic` chooses by bytes, size and layout, and gives its
// reason in Plan::reason. Call it only with what check_allreduce() accepts. The plan of `nccl` has no
// steps: what runs it lets NCCL do the work.
[[nodiscard]] Planned plan_allreduce(Rank rank, int size, std::size_t bytes, Shape shape,
                                     AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic,
                                     const Layout& layout = {}, Bits bits = Bits::automatic);
// hierarchical_neighbor_allreduce: x is averaged inside each machine. Then y := the weighted sum of
// the machines' means over the machine's in-neighbors, with the same bits on all ranks of a
// machine. In `machines`, `rank` is our machine, and `in` and `out` are its neighbors among
// machines. Weight::Kind::self is the machine's own weight. An edge to a rank of another machine
// has the weight of that machine; an edge inside the machine has none. Weight::Kind::scale is that
// of a mean of the ranks on our machine. Machines may have different numbers of ranks, as far as the
// check allows.
[[nodiscard]] Status check_hierarchical_neighbor_allreduce(const Layout& layout);
// Whether the input is a rank's, or already the machine's mean, the same on all of its ranks. Then the
// operation is not in place.
enum class MeanInput : bool { of_rank, of_machine };
[[nodiscard]] Planned plan_hierarchical_neighbor_allreduce(Rank rank, const Layout& layout,
                                                           const View& machines, Shape shape,
                                                           MeanInput input = MeanInput::of_rank);
// broadcast of the root's input to the output of all ranks, including the root's unless in place.
[[nodiscard]] Planned plan_broadcast(Rank rank, int size, Rank root, std::size_t bytes,
                                     Shape shape);
// barrier: no rank ends before all ranks have begun. Its messages are empty.
[[nodiscard]] Planned plan_barrier(Rank rank, int size);

// allgather: output block r := the input of rank r, at every rank. `bytes` is the size of the
// output. The output's partition is `given`, with a block for each rank.
[[nodiscard]] Planned plan_allgather(Rank rank, int size, std::size_t bytes, Shape shape);
// reduce_scatter: output := the reduction of input block `rank` of all ranks. `bytes` is the size
// of the input. The input's partition is `given`, with a block for each rank.
[[nodiscard]] Planned plan_reduce_scatter(Rank rank, int size, std::size_t bytes, Shape shape,
                                          Bits bits = Bits::automatic);
// reduce: the root's output := the reduction of the inputs of all ranks. The others have no output.
[[nodiscard]] Planned plan_reduce(Rank rank, int size, Rank root, std::size_t bytes, Shape shape,
                                  Bits bits = Bits::automatic);
// gather: the root's output block r := the input of rank r. The others have no output.
[[nodiscard]] Planned plan_gather(Rank rank, int size, Rank root, Shape shape);
// scatter: output := the root's input block `rank`. The others' input is not used.
[[nodiscard]] Planned plan_scatter(Rank rank, int size, Rank root, Shape shape);
// alltoall: output block r := rank r's input block `rank`. Both partitions are `given`, with a
// block for each rank. In place needs equal blocks in both directions between each two ranks.
[[nodiscard]] Planned plan_alltoall(Rank rank, int size, Shape shape);

// Subset operations: only the ranks concerned have a plan.
// send: the input goes to the one out-peer. receive: the one in-peer's input becomes the output.
[[nodiscard]] Plan plan_send(const View& view);
[[nodiscard]] Plan plan_receive(const View& view);
// pair_average: y = w_ii x + w_ij x_j with the one peer, in rank order.
[[nodiscard]] Plan plan_pair_average(const View& view, Shape shape);
// group_average: the mean over the `size` ranks of a group. The view has places in the group
// instead of ranks.
[[nodiscard]] Planned plan_group_average(int place, int size, std::size_t bytes, Shape shape,
                                         Bits bits = Bits::automatic);

}  // namespace weft
