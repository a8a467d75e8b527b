// exchange: see the header for why an in-place exchange goes through scratch.
#include "scheduler/plan/exchange.h"

namespace weft {

void exchange(PlanBuilder& plan, const View& view, Shape shape, Combining combining, Weight own,
              Weight::Kind messages) {
  const Slice input = block_of(Buffer::input, 0U);
  const Slice output = block_of(Buffer::output, 0U);
  const Slice scratch = block_of(Buffer::scratch, 0U);
  const bool has_readers = !view.out.empty();
  const bool through_scratch = shape.in_place && has_readers;

  plan.partition_evenly(1);
  if (through_scratch) {
    plan.partition(Buffer::scratch, Partition::Kind::even, 1);
    plan.combine(Combining::copy, scratch, {local(input)});
  }
  if (has_readers) plan.send(through_scratch ? scratch : input, every_edge(view.out), combining);
  // In place, the own term is read where it is written: exactly the same elements, which a combine
  // allows.
  const std::vector<Operand> terms = in_rank_order(view, local(input, own), messages);
  if (combining == Combining::reduce) {
    plan.combine_whole(combining, output, terms);
  } else {
    plan.combine(combining, output, terms);
  }
}

}  // namespace weft
