// allreduce, hierarchical: every machine's ranks reduce the tensor to a share each, the owners of a
// share on all machines reduce it between the machines, and each machine gathers it inside. So a
// byte crosses the network once per machine, not once per rank, and each rank's share over its own
// near rail: 2 M (K-1)/K in per machine of K.
//
// Between the machines, two ranks that own the same segment swap it whole: one wait, and as many
// bytes as halving it. More machines reduce it further, to a piece each, over levels of at most
// kLevelMachines: two waits per level.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "scheduler/plan/allreduce_algorithms.h"
#include "scheduler/plan/factors.h"
#include "scheduler/plan/machine_shares.h"
#include "scheduler/plan/tensor_part.h"

namespace weft {
namespace {

// A level of k machines waits twice for k-1 messages at once, instead of log2 k times for one.
constexpr int kLevelMachines = 16;
// Of a prime number of machines: more than this go around a ring, for two edges instead of k-1.
constexpr int kDirectMachines = 64;

// The machines differ in one digit of their number at each level.
std::vector<TensorPart> between_machines(const MachineShares& shares, Rank rank,
                                         const std::vector<int>& levels, Shape shape) {
  const int own = shares.machine_of(rank);
  const auto pieces = static_cast<std::uint32_t>(shares.machines());
  std::vector<TensorPart> parts;
  for (const Slice& segment : shares.segments_of(rank)) {
    std::vector<TensorPart::Stage> stages;
    int stride = 1;
    for (const int length : levels) {
      stages.push_back(stage_along(
          own, stride, length,
          length <= kDirectMachines ? TensorPart::Passing::direct : TensorPart::Passing::ring));
      for (Rank& member : stages.back().members) member = shares.owner(member, segment);
      stride *= length;
    }
    parts.emplace_back(blocks_of(Buffer::output, segment.first * pieces, segment.last * pieces),
                       std::move(stages), shape);
  }
  return parts;
}

Planned plan_two(Rank rank, Shape shape, const MachineShares& shares, const Layout& layout,
                 const std::string& reason) {
  const std::vector<int> other{1 - shares.machine_of(rank)};
  const SharesExchange swap{&shares,           Buffer::scratch,  other, other, Combining::reduce,
                            Weight::Kind::one, Weight::Kind::one};
  TensorPart inside = inside_machine(
      shares, rank, shares.blocks(), shape,
      {.combining = Combining::reduce, .buffer = Buffer::scratch, .are_whole = false});
  View view{rank, shares.ranks(), {}, {}};
  inside.add_peers(view);
  add_share_peers(view, swap);
  view = sorted(std::move(view));

  PlanBuilder plan("allreduce", "hierarchical", view);
  plan.partition_evenly(shares.blocks());
  plan.partition(Buffer::scratch, Partition::Kind::even, shares.blocks());
  inside.make_move(plan, view, 0);
  exchange_shares(plan, view, swap);
  inside.make_move(plan, view, 1);
  keep_to_near_rail(plan, view, shares, layout);
  return {std::move(view), std::move(plan).finish(fmt::format(
                               "{}; 2 machines of {} swap shares whole", reason, shares.text()))};
}

Planned plan_several(Rank rank, Shape shape, const MachineShares& shares, const Layout& layout,
                     const std::string& reason) {
  const int machines = shares.machines();
  const std::vector<int> levels = few_factors(machines, kLevelMachines);
  const std::uint32_t blocks = shares.blocks() * static_cast<std::uint32_t>(machines);
  TensorPart inside = inside_machine(shares, rank, blocks, shape, {.are_whole = false});
  std::vector<TensorPart> between = between_machines(shares, rank, levels, shape);
  View view{rank, shares.ranks(), {}, {}};
  inside.add_peers(view);
  for (const TensorPart& part : between) part.add_peers(view);
  view = sorted(std::move(view));

  PlanBuilder plan("allreduce", "hierarchical", view);
  plan.partition_evenly(blocks);
  inside.make_move(plan, view, 0);
  plan_parts(plan, view, between);
  inside.make_move(plan, view, 1);
  keep_to_near_rail(plan, view, shares, layout);
  return {std::move(view), std::move(plan).finish(fmt::format(
                               "{}; {} machines of {}, shares meet over levels of {}", reason,
                               machines, shares.text(), fmt::join(levels, " x ")))};
}

}  // namespace

Status check_hierarchical(int size, const Layout& layout) {
  if (layout.machines() < 2) {
    return {Code::invalid_argument,
            fmt::format("hierarchical needs several machines: all {} ranks are on one", size)};
  }
  if (layout.machines() == size) {
    return {Code::invalid_argument,
            fmt::format("hierarchical needs machines of several ranks: each of {} has one", size)};
  }
  return MachineShares::check(layout);
}

Planned plan_allreduce_hierarchical(Rank rank, Shape shape, const Layout& layout,
                                    const std::string& reason) {
  const MachineShares shares(layout);
  return shares.machines() == 2 ? plan_two(rank, shape, shares, layout, reason)
                                : plan_several(rank, shape, shares, layout, reason);
}

}  // namespace weft
