// plans: see the header.
#include "tests/plan/plans.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

namespace weft {

Plans allreduce_plans(int size, std::size_t bytes, Shape shape, AllreduceAlgorithm algorithm) {
  Plans plans;
  for (Rank rank = 0; rank < size; ++rank) {
    plans.push_back(plan_allreduce(rank, size, bytes, shape, algorithm));
  }
  return plans;
}

Plans broadcast_plans(int size, Rank root, std::size_t bytes, Shape shape) {
  Plans plans;
  for (Rank rank = 0; rank < size; ++rank) {
    plans.push_back(plan_broadcast(rank, size, root, bytes, shape));
  }
  return plans;
}

Plans barrier_plans(int size) {
  Plans plans;
  for (Rank rank = 0; rank < size; ++rank) plans.push_back(plan_barrier(rank, size));
  return plans;
}

Plans neighbor_allreduce_plans(const std::vector<View>& views, Shape shape) {
  Plans plans;
  for (const View& view : views) plans.push_back({view, plan_neighbor_allreduce(view, shape)});
  return plans;
}

Plans neighbor_allgather_plans(const std::vector<View>& views) {
  Plans plans;
  for (const View& view : views) plans.push_back({view, plan_neighbor_allgather(view, kApart)});
  return plans;
}

Plans idle_plans(int size) {
  return plans_of(size, [size](Rank rank) { return Planned{{rank, size, {}, {}}, {}}; });
}

Plans send_plans(int size, Rank from, Rank to) {
  Plans plans = idle_plans(size);
  const View sender{from, size, {}, {to}};
  const View receiver{to, size, {from}, {}};
  plans[static_cast<std::size_t>(from)] = {sender, plan_send(sender)};
  plans[static_cast<std::size_t>(to)] = {receiver, plan_receive(receiver)};
  return plans;
}

Plans pair_average_plans(const std::vector<std::pair<Rank, Rank>>& pairs, int size, Shape shape) {
  Plans plans = idle_plans(size);
  for (const auto& [a, b] : pairs) {
    for (const auto& [rank, peer] : {std::pair{a, b}, std::pair{b, a}}) {
      const View view{rank, size, {peer}, {peer}};
      plans[static_cast<std::size_t>(rank)] = {view, plan_pair_average(view, shape)};
    }
  }
  return plans;
}

Plans group_average_plans(int size, const std::vector<Rank>& group, std::size_t bytes,
                          Shape shape) {
  Plans plans = idle_plans(size);
  const auto count = static_cast<int>(group.size());
  for (int place = 0; place < count; ++place) {
    Planned planned = plan_group_average(place, count, bytes, shape);
    const auto rank_at = [&](Rank at) { return group[static_cast<std::size_t>(at)]; };
    planned.view.rank = rank_at(place);
    planned.view.size = size;
    for (Rank& peer : planned.view.in) peer = rank_at(peer);
    for (Rank& peer : planned.view.out) peer = rank_at(peer);
    plans[static_cast<std::size_t>(planned.view.rank)] = std::move(planned);
  }
  return plans;
}

std::vector<View> random_views(int size, std::uint32_t percent, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<bool> edges;
  for (int i = 0; i < size * size; ++i) edges.push_back(random() % 100 < percent);
  return views_of(size, [&](Rank from, Rank to) {
    return edges[static_cast<std::size_t>(from) * static_cast<std::size_t>(size) +
                 static_cast<std::size_t>(to)];
  });
}

std::vector<View> exponential_views(int size) {
  return views_of(size, [size](Rank from, Rank to) {
    return std::has_single_bit(static_cast<unsigned>((to + size - from) % size));
  });
}

void expect_verified(const Plans& plans, Expectation expectation) {
  for (const Order order : kOrders) {
    expectation.order = order;
    const Status status = verify(plans, expectation);
    EXPECT_TRUE(status.ok()) << plans.front().plan.operation << " " << plans.front().plan.algorithm
                             << " of " << plans.size() << " ranks: " << status.to_string();
  }
}

}  // namespace weft
