// alltoall: a block of its own from everybody to everybody. Each rank copies its blocks from where
// they are, the next rank's first, so that at no time all read from one. Sent as it is every byte
// crosses once; algorithms with fewer messages carry each byte log2 n / 2 times.
#include <fmt/format.h>

#include <utility>

#include "scheduler/plan/builder.h"

namespace weft {

Planned plan_alltoall(Rank rank, int size, Shape shape) {
  View view = complete_view(rank, size);
  PlanBuilder plan("alltoall", "pairwise", view);
  const auto blocks = static_cast<std::uint32_t>(size);
  plan.partition(Buffer::input, Partition::Kind::given, blocks);
  plan.partition(Buffer::output, Partition::Kind::given, blocks);
  // In place our block for a peer lies where the peer's block for us goes; each would wait for the
  // other to read first.
  const bool through_scratch = shape.in_place && size > 1;
  const Buffer source = through_scratch ? Buffer::scratch : Buffer::input;
  if (through_scratch) {
    plan.partition(Buffer::scratch, Partition::Kind::given, blocks);
    plan.combine(Combining::copy, blocks_of(Buffer::scratch, 0, blocks),
                 {local(blocks_of(Buffer::input, 0, blocks))});
  }
  // The peer `hop` ranks behind us takes our block in its turn `hop`.
  const std::vector<Rank> others = others_clockwise(rank, size);
  for (auto other = others.rbegin(); other != others.rend(); ++other) {
    plan.send(block_of(source, *other), {edge_to(view.out, *other)});
  }
  if (!shape.in_place) {
    plan.combine(Combining::copy, block_of(Buffer::output, rank),
                 {local(block_of(Buffer::input, rank))});
  }
  for (const Rank other : others) {
    plan.combine(Combining::copy, block_of(Buffer::output, other),
                 {message(edge_to(view.in, other))});
  }
  return {std::move(view), std::move(plan).finish(fmt::format(
                               "each of {} ranks copies a block from every other{}", size,
                               through_scratch ? "; in place, so from a copy" : ""))};
}

}  // namespace weft
