// Operations of two ranks: send with its receive, and the weighted average of a pair.
#include "scheduler/plan/exchange.h"

namespace weft {

Plan plan_send(const View& view) {
  invariant(view.out.size() == 1, "a send has one receiver");
  PlanBuilder plan("send", "direct", view);
  plan.partition(Buffer::input, Partition::Kind::even, 1);
  plan.send(block_of(Buffer::input, 0U), {0});
  return std::move(plan).finish("the receiver reads the sender");
}

Plan plan_receive(const View& view) {
  invariant(view.in.size() == 1, "a receive has one sender");
  PlanBuilder plan("recv", "direct", view);
  plan.partition(Buffer::output, Partition::Kind::even, 1);
  plan.combine(Combining::copy, block_of(Buffer::output, 0U), {message(0)});
  return std::move(plan).finish("the receiver reads the sender");
}

Plan plan_pair_average(const View& view, Shape shape) {
  invariant(view.in.size() == 1 && view.in == view.out, "a pair is two ranks");
  PlanBuilder plan("pair_average", "direct", view);
  exchange(plan, view, shape, Combining::weighted, {Weight::Kind::self, 0}, Weight::Kind::edge);
  return std::move(plan).finish(shape.in_place
                                    ? "each reads the other once; in place, so from a copy"
                                    : "each reads the other once");
}

}  // namespace weft
