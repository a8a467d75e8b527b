// barrier: nobody leaves before everybody came, by empty messages. Many ranks use dissemination
// (Hensgen, Finkel and Manber, 1988): in round k each hears from the rank 2^k behind, who by then
// has heard of 2^k ranks. Few ranks all tell each other in one round: up to 8, seven notices are
// posted and polled in less time than the second and third round of dissemination would wait for.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scheduler/plan/builder.h"

namespace weft {
namespace {

constexpr int kOneRoundRanks = 8;
constexpr Slice kNothing{Buffer::input, 0, 0};

// Distances are different powers of two below n, so no peer comes twice.
View dissemination_view(Rank rank, int size) {
  View view{rank, size, {}, {}};
  for (int distance = 1; distance < size; distance *= 2) {
    view.in.push_back((rank + size - distance) % size);
    view.out.push_back((rank + distance) % size);
  }
  std::sort(view.in.begin(), view.in.end());
  std::sort(view.out.begin(), view.out.end());
  return view;
}

Planned plan_one_round(Rank rank, int size) {
  View view = complete_view(rank, size);
  PlanBuilder plan("barrier", "one_round", view);
  if (size > 1) {
    plan.send(kNothing, every_edge(view.out), Combining::reduce);
    std::vector<Operand> messages;
    for (const std::uint32_t edge : every_edge(view.in)) messages.push_back(message(edge));
    plan.combine(Combining::reduce, kNothing, messages);
  }
  return {std::move(view), std::move(plan).finish(fmt::format(
                               "{} ranks: up to {} all tell each other", size, kOneRoundRanks))};
}

Planned plan_dissemination(Rank rank, int size) {
  View view = dissemination_view(rank, size);
  PlanBuilder plan("barrier", "dissemination", view);
  for (int distance = 1; distance < size; distance *= 2) {
    plan.send(kNothing, {edge_to(view.out, (rank + distance) % size)});
    plan.combine(Combining::copy, kNothing,
                 {message(edge_to(view.in, (rank + size - distance) % size))});
  }
  return {std::move(view), std::move(plan).finish(fmt::format("{} ranks: log2 n rounds above {}",
                                                              size, kOneRoundRanks))};
}

}  // namespace

Planned plan_barrier(Rank rank, int size) {
  return size <= kOneRoundRanks ? plan_one_round(rank, size) : plan_dissemination(rank, size);
}

}  // namespace weft
