// verify: proves a collective right by running all ranks' plans symbolically, with no network and
// no data.
//
// What is proved, for every order in which the ranks may run, and for all data, weights and
// operators:
//  - edges: an edge that one rank calls an out-edge is an in-edge of the other;
//  - messages: the k-th sent is the k-th taken, both have the same size, and none is left over;
//  - memory: nothing is read before it is written. A slice that peers may still read is never
//    written, because every such write lists the send as a hazard. An operand is its combine's
//    destination or disjoint from it. The input is untouched unless in place; in place means that
//    input and output are the same memory;
//  - progress: all programs end, even if each edge has room for only one message at a time. They
//    also end if a rank stages its only send in a small ring: the rank then gives each piece to all
//    readers before it stages the next one, so all readers must read before any has read
//    everything;
//  - result: each output element is the sum, product, copy or gathering that was asked for, and has
//    each source exactly once and with its own weight. An allreduce has the same bits on all ranks,
//    a hierarchical neighbor_allreduce on all ranks of a machine. No rank leaves a barrier before
//    all ranks have come.
//
// Why one run proves all orders: a rank waits only for conditions that stay true once they are true
// (a message is at the head of its edge, a send's readers are done), and the memory rules keep what
// is sent unchanged until it was read. What a program computes, and whether it ends, therefore does
// not depend on which rank runs first. With `order` tests check this claim too. Sends proceed in
// the background: further messages of an edge wait at the sender and do not stop its program. So
// one slot per edge is enough, unless one combine needs two messages of one edge, which verify()
// refuses.
//
// How it works: each buffer is a few elements, cut unevenly, so that a confusion of blocks shows.
// Each input element and each weight is a random number of the field of integers mod 2^61-1, and
// the plans are run with exact arithmetic. By the lemma of Schwartz and Zippel a wrong result
// passes with a probability of at most ranks / 2^61 for each element compared.
//
// Pure functions. The cost is about the number of operands times the elements of a block.
#pragma once

#include <cstdint>
#include <span>

#include "scheduler/plan/plan.h"

namespace weft {

// Which rank takes the next step if several can.
enum class Order : std::uint8_t {
  round_robin,  // each rank takes one step in turn
  eager,        // one rank runs until it must wait, then another
  random,       // a random rank takes one step, by `seed`
};

// What they are meant to do.
struct Expectation {
  // A pair_average is a neighbor_allreduce; local_allreduce has no plans of its own.
  Collective operation = Collective::allreduce;
  Shape shape{};
  Rank root = 0;                    // broadcast, reduce, gather, scatter
  std::span<const Rank> members{};  // send: the sender, then the receiver; group_average: the group
  // hierarchical_neighbor_allreduce: the machine of every rank, as in a Layout, and the neighbors
  // of every machine.
  std::span<const int> machine{};
  std::span<const View> machines{};
  MeanInput input = MeanInput::of_rank;
  Order order = Order::round_robin;
  std::uint64_t seed = 1;  // of the symbols and of Order::random
};

// `programs[r]` is the plan of rank r. Returns the first fault found: `mismatch` if two ranks
// disagree, else `invalid_argument`. The text names the rank and its step, edge or output block.
[[nodiscard]] Status verify(std::span<const Planned> programs, const Expectation& expectation);

}  // namespace weft
