// allreduce, ring: reduce-scatter and allgather over n blocks, n-1 phases each, one neighbor on
// either side (Patarasuk and Yuan, 2009). 2 M (n-1)/n in per rank and two edges, whatever n is.
//
// Block b's partial sum starts at rank b+1 as raw input, visits b+2, b+3, … and is complete at rank
// b. The complete block then goes around once more.
#include <utility>

#include "scheduler/plan/allreduce_algorithms.h"
#include "scheduler/plan/builder.h"

namespace weft {
Planned plan_allreduce_ring(Rank rank, int size, Shape shape, std::string reason) {
  View view{rank, size, {behind(rank, 1, size)}, {(rank + 1) % size}};
  PlanBuilder plan("allreduce", "ring", view);
  plan.partition_evenly(static_cast<std::uint32_t>(size));
  constexpr Weight kScale{Weight::Kind::scale, 0};

  // sent[p] is the send of block rank-1-p in the first pass. Only the first is raw input.
  std::vector<std::uint32_t> sent{plan.send(block_of(Buffer::input, behind(rank, 1, size)), {0})};
  for (int phase = 0; phase < size - 1; ++phase) {
    const Rank block = behind(rank, 2 + phase, size);
    const Slice partial = block_of(Buffer::output, block);
    // Each contribution is scaled once: ours here, the raw one by its first receiver.
    plan.combine(Combining::reduce, partial,
                 {message(0, phase == 0 ? kScale : Weight{}),
                  local(block_of(Buffer::input, block), kScale)});
    sent.push_back(plan.send(partial, {0}));
  }

  // sent.back() was our own complete block; the others come in and, but for the last, go on. Each
  // lands on a partial sum that we sent, or, for the first and only in place, on the raw input that
  // we sent.
  for (int phase = 0; phase < size - 1; ++phase) {
    const Slice complete = block_of(Buffer::output, behind(rank, 1 + phase, size));
    const bool overwrites_sent = phase > 0 || shape.in_place;
    plan.combine(Combining::copy, complete, {message(0)},
                 overwrites_sent ? std::vector{sent[static_cast<std::size_t>(phase)]}
                                 : std::vector<std::uint32_t>{});
    if (phase < size - 2) plan.send(complete, {0});
  }
  return {std::move(view), std::move(plan).finish(std::move(reason))};
}

}  // namespace weft
