// verify: proves a collective right by running all ranks' plans symbolically, with no network and
// no data.
//
// What is proved, for every schedule of the ranks, and whatever the data, the weights and the
// operator are:
//  - edges: what one rank calls an out-edge, the other calls an in-edge;
//  - messages: the k-th sent is the k-th taken, both of the same size, and none is left over;
//  - memory: nothing is read before it is written. A slice that peers may still read is never
//    written: every such write lists the send as a hazard. An operand is its combine's destination
//    or disjoint from it. The input is untouched unless in place, and in place means that input and
//    output are the same memory;
//  - progress: all programs end, though a directed pair of ranks holds only one message at a time,
//    and though a rank whose only send has several readers gives each piece to all of them before
//    it goes on (it stages the message in a small ring): they all read before any has read all;
//  - result: each output element is the sum, product, copy or gathering asked for, each source in
//    it exactly once and with its own weight. An allreduce has the same bits everywhere, a
//    hierarchical neighbor_allreduce on all ranks of a machine. Nobody leaves a barrier before
//    everybody came.
//
// Why one run proves all schedules: a rank waits only for things that, once true, stay true (a
// message is at the head of its edge, a send's readers are done), and the memory rules keep what is
// sent unchanged until it was read. So what a program computes, and whether it ends, does not
// depend on who runs first. `order` lets tests check that claim too. Sends being in the background,
// an edge's further messages wait at the sender without stopping its program, so one slot per edge
// is enough unless one combine needs two messages of one edge: that is refused.
//
// How: each buffer is a few elements, cut unevenly, so that a mix-up of blocks shows. Each input
// element is a random number of the field of integers mod 2^61-1, each weight too, and the plans
// are run with exact arithmetic. By the lemma of Schwartz and Zippel a wrong result passes with a
// chance of at most ranks / 2^61 for each element compared.
//
// Pure functions; cost is about the number of operands times the elements of a block.
#pragma once

#include <cstdint>
#include <span>

#include "scheduler/plan/plan.h"

namespace weft {

enum class Operation : std::uint8_t {
  neighbor_allreduce,  // and pair_average
  neighbor_allgather,
  allreduce,
  broadcast,
  barrier,
  allgather,
  reduce_scatter,
  reduce,
  gather,
  scatter,
  alltoall,
  send,           // members: the sender, the receiver
  group_average,  // an allreduce among the members
  hierarchical_neighbor_allreduce,
};

// Who takes the next step when several ranks can.
enum class Order : std::uint8_t {
  round_robin,  // each in turn, one step
  eager,        // one rank as far as it gets, then another
  random,       // any, one step, by `seed`
};

// What the plans are meant to do together.
struct Expectation {
  Operation operation = Operation::allreduce;
  Shape shape{};
  Rank root = 0;                    // broadcast, reduce, gather, scatter
  std::span<const Rank> members{};  // send, group_average; the others' plans are empty
  // hierarchical_neighbor_allreduce: every rank's machine, as in a Layout, and every machine's
  // neighbors among machines.
  std::span<const int> machine{};
  std::span<const View> machines{};
  Order order = Order::round_robin;
  std::uint64_t seed = 1;  // of the symbols and of Order::random
};

// `programs[r]` is rank r's. The first fault found: `mismatch` where two ranks disagree, else
// `invalid_argument`; the text names the rank and its step, edge or output block.
[[nodiscard]] Status verify(std::span<const Planned> programs, const Expectation& expectation);

}  // namespace weft
