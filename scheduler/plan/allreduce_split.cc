// allreduce, split: rank r reduces block r of everybody's input, then everybody copies it. Two
// phases, 2 M (n-1)/n in per rank; on shared memory each input byte is read once for the reduction.
#include <utility>

#include "scheduler/plan/allreduce_algorithms.h"
#include "scheduler/plan/builder.h"

namespace weft {
Planned plan_allreduce_split(Rank rank, int size, Shape shape, std::string reason) {
  View view = complete_view(rank, size);
  PlanBuilder plan("allreduce", "split", view);
  plan.partition_evenly(static_cast<std::uint32_t>(size));
  const std::vector<Rank> others = others_clockwise(rank, size);

  std::vector<std::uint32_t> raw_sends;  // in the order of `others`
  for (const Rank owner : others) {
    raw_sends.push_back(
        plan.send(block_of(Buffer::input, owner), {edge_to(view.out, owner)}, Combining::reduce));
  }

  // Our own block was sent to nobody, so in place it may be overwritten at once.
  const Operand own = local(block_of(Buffer::input, rank), {Weight::Kind::scale, 0});
  plan.combine_whole(Combining::reduce, block_of(Buffer::output, rank),
                     in_rank_order(view, own, Weight::Kind::scale));
  plan.send(block_of(Buffer::output, rank), every_edge(view.out));

  // In place, block b of the output is what we sent to b. Its result was made from it, so this
  // never waits.
  for (std::size_t i = 0; i < others.size(); ++i) {
    const std::vector<std::uint32_t> hazards =
        shape.in_place ? std::vector{raw_sends[i]} : std::vector<std::uint32_t>{};
    plan.combine(Combining::copy, block_of(Buffer::output, others[i]),
                 {message(edge_to(view.in, others[i]))}, hazards);
  }
  return {std::move(view), std::move(plan).finish(std::move(reason))};
}

}  // namespace weft
