// reduce_scatter: rank r reduces block r of everybody's input. Few ranks read it where it is: one
// phase, each input byte read once. Many ranks pass partial sums around a ring, with two edges each
// (the first half of Patarasuk and Yuan's allreduce, 2009).
#include <fmt/format.h>

#include <utility>

#include "scheduler/plan/builder.h"

namespace weft {
namespace {

// direct needs an edge, and so slots, for every other rank.
constexpr int kDirectRanks = 64;
constexpr Weight kScale{Weight::Kind::scale, 0};

// In place the output is our own block of the input, which is sent to nobody.
void plan_direct(PlanBuilder& plan, const View& view) {
  for (const Rank owner : others_clockwise(view.rank, view.size)) {
    plan.send(block_of(Buffer::input, owner), {edge_to(view.out, owner)}, Combining::reduce);
  }
  plan.combine_whole(
      Combining::reduce, block_of(Buffer::output, 0U),
      in_rank_order(view, local(block_of(Buffer::input, view.rank), kScale), Weight::Kind::scale));
}

// Block b's partial sum starts at rank b+1 as raw input and is complete at rank b. Partial sums
// live in scratch, a block each, so none is overwritten.
void plan_ring(PlanBuilder& plan, const View& view) {
  plan.partition(Buffer::scratch, Partition::Kind::given, static_cast<std::uint32_t>(view.size));
  plan.send(block_of(Buffer::input, behind(view.rank, 1, view.size)), {0}, Combining::reduce);
  for (int phase = 0; phase < view.size - 1; ++phase) {
    const Rank block = behind(view.rank, 2 + phase, view.size);
    const bool is_own = phase == view.size - 2;
    const std::vector<Operand> terms{message(0, phase == 0 ? kScale : Weight{}),
                                     local(block_of(Buffer::input, block), kScale)};
    if (is_own) {
      plan.combine_whole(Combining::reduce, block_of(Buffer::output, 0U), terms);
    } else {
      const Slice sum = block_of(Buffer::scratch, block);
      plan.combine(Combining::reduce, sum, terms);
      plan.send(sum, {0}, Combining::reduce);
    }
  }
}

}  // namespace

Planned plan_reduce_scatter(Rank rank, int size, std::size_t bytes, Shape shape, Bits bits) {
  const bool is_fixed = bits == Bits::fixed;
  const bool is_direct = is_fixed || size <= kDirectRanks;
  View view = is_direct ? complete_view(rank, size)
                        : View{rank, size, {behind(rank, 1, size)}, {(rank + 1) % size}};
  PlanBuilder plan("reduce_scatter", is_direct ? "direct" : "ring", view);
  plan.partition(Buffer::input, Partition::Kind::given, static_cast<std::uint32_t>(size));
  plan.partition(Buffer::output, Partition::Kind::even, 1);
  if (size == 1) {
    // The reduction of one input is that input, whatever the operator.
    if (!shape.in_place) {
      plan.combine(Combining::copy, block_of(Buffer::output, 0U),
                   {local(block_of(Buffer::input, 0U))});
    }
  } else if (is_direct) {
    plan_direct(plan, view);
  } else {
    plan_ring(plan, view);
  }
  return {std::move(view), std::move(plan).finish(
                               fmt::format("{} bytes on {} ranks: {}{}", bytes, size,
                                           is_direct ? "everybody reads its block of all"
                                                     : "two edges per rank are best for many ranks",
                                           is_fixed ? "; fixed bits, in rank order" : ""))};
}

}  // namespace weft
