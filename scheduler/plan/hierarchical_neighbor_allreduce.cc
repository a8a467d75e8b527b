// hierarchical_neighbor_allreduce: every machine's ranks take the mean of the tensor, a share each;
// a share goes to the machine's out-neighbors and is summed, with the machines' weights, with those
// of its in-neighbors; and each machine gathers the sum. Three waits. Between machines M goes per
// neighbor and direction, a share over each rank's own near rail.
//
// Each machine scales by its own number of ranks, so the mean is right whatever the others' are.
#include <fmt/format.h>

#include <utility>

#include "scheduler/plan/machine_shares.h"

namespace weft {
namespace {

// Peers read our share while we write the output, so it lies in scratch. The only rank of a machine
// has its mean from the start, and peers read it where it is, unless it is overwritten there.
Buffer buffer_of_share(const MachineShares& shares, const View& machines, Shape shape) {
  const bool is_alone = shares.ranks_on(machines.rank) == 1;
  const bool overwrites_sent = shape.in_place && !machines.out.empty();
  return is_alone && !overwrites_sent ? Buffer::input : Buffer::scratch;
}

}  // namespace

Status check_hierarchical_neighbor_allreduce(const Layout& layout) {
  if (layout.machine.empty()) {
    return {Code::invalid_argument,
            "hierarchical_neighbor_allreduce needs to know which machine each rank is on"};
  }
  return MachineShares::check(layout);
}

Planned plan_hierarchical_neighbor_allreduce(Rank rank, const Layout& layout, const View& machines,
                                             Shape shape) {
  const MachineShares shares(layout);
  invariant(machines.rank == shares.machine_of(rank), "the view is that of the rank's machine");
  invariant(machines.size == shares.machines(), "the view is one of all machines");
  const SharesExchange exchange{&shares,
                                buffer_of_share(shares, machines, shape),
                                machines.in,
                                machines.out,
                                Combining::weighted,
                                Weight::Kind::self,
                                Weight::Kind::edge};
  TensorPart inside =
      inside_machine(shares, rank, shares.blocks(), shape, {Combining::weighted, Buffer::scratch});
  View view{rank, shares.ranks(), {}, {}};
  inside.add_peers(view);
  add_share_peers(view, exchange);
  view = sorted(std::move(view));

  PlanBuilder plan("hierarchical_neighbor_allreduce", "hierarchical", view);
  plan.partition_evenly(shares.blocks());
  if (exchange.own == Buffer::scratch) {
    plan.partition(Buffer::scratch, Partition::Kind::even, shares.blocks());
    inside.make_move(plan, view, 0);
  }
  exchange_shares(plan, view, exchange);
  inside.make_move(plan, view, 1);
  keep_to_near_rail(plan, view, shares, layout);
  return {std::move(view),
          std::move(plan).finish(fmt::format(
              "{} machines of {}: a share per rank, from {} and to {} machines", shares.machines(),
              shares.text(), machines.in.size(), machines.out.size()))};
}

}  // namespace weft
