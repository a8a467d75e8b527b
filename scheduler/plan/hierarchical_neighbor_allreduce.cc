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

// Each rank's share of the output, to all ranks of its machine, which take the shares in one order: who
// reads in another may wait for one another in a circle.
void gather_shares(PlanBuilder& plan, const View& view, const MachineShares& shares) {
  const std::vector<Rank> members = shares.ranks_of(shares.machine_of(view.rank));
  const auto count = static_cast<std::uint32_t>(members.size());
  const auto share_of = [&](std::uint32_t place) {
    const std::uint32_t blocks = shares.blocks() / count;
    return blocks_of(Buffer::output, place * blocks, (place + 1) * blocks);
  };
  const auto own = static_cast<std::uint32_t>(shares.place_of(view.rank));
  std::vector<std::uint32_t> edges;
  for (std::uint32_t hop = 1; hop < count; ++hop)
    edges.push_back(edge_to(view.out, members[(own + hop) % count]));
  if (edges.empty()) return;
  plan.send(share_of(own), edges);
  for (std::uint32_t place = 0; place < count; ++place) {
    if (place == own) continue;
    plan.combine(Combining::copy, share_of(place), {message(edge_to(view.in, members[place]))});
  }
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
                                             Shape shape, MeanInput input) {
  const MachineShares shares(layout);
  invariant(machines.rank == shares.machine_of(rank), "the view is that of the rank's machine");
  invariant(machines.size == shares.machines(), "the view is one of all machines");
  const bool has_mean = input == MeanInput::of_machine;
  const SharesExchange exchange{&shares,
                                has_mean ? Buffer::input : buffer_of_share(shares, machines, shape),
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
  if (has_mean) {
    gather_shares(plan, view, shares);
  } else {
    inside.make_move(plan, view, 1);
  }
  keep_to_near_rail(plan, view, shares, layout);
  return {std::move(view),
          std::move(plan).finish(fmt::format(
              "{} machines of {}: a share per rank, from {} and to {} machines{}",
              shares.machines(), shares.text(), machines.in.size(), machines.out.size(),
              has_mean ? ", behind NCCL's mean inside each; where Weft computes the mean, the "
                         "operation before this one was the whole"
                       : ""))};
}

}  // namespace weft
