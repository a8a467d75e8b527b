// plans: see the header.
#include "tests/plan/plans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <random>

namespace weft {

Plans allreduce_plans(int size, std::size_t bytes, Shape shape, AllreduceAlgorithm algorithm,
                      const Layout& layout) {
  Plans plans;
  for (Rank rank = 0; rank < size; ++rank) {
    plans.push_back(plan_allreduce(rank, size, bytes, shape, algorithm, layout));
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

Layout layout_of(const std::vector<int>& counts) {
  Layout layout;
  for (std::size_t machine = 0; machine < counts.size(); ++machine) {
    layout.machine.insert(layout.machine.end(), static_cast<std::size_t>(counts[machine]),
                          static_cast<int>(machine));
  }
  return layout;
}

// Machines get their numbers by their lowest rank after the shuffle.
Layout scattered_layout(const std::vector<int>& counts, std::uint64_t seed) {
  Layout layout = layout_of(counts);
  std::mt19937_64 random(seed);
  std::shuffle(layout.machine.begin(), layout.machine.end(), random);
  std::map<int, int> number;
  for (int& machine : layout.machine) {
    machine = number.emplace(machine, static_cast<int>(number.size())).first->second;
  }
  return layout;
}

std::vector<Sent> sent_by(const Planned& planned, std::size_t elements) {
  const auto& [view, plan] = planned;
  std::vector<Sent> messages;
  for (const Step& step : plan.steps) {
    if (step.kind != Step::Kind::send) continue;
    std::size_t count = 0;
    for (std::uint32_t block = step.slice.first; block < step.slice.last; ++block) {
      count += block_range(elements, 1, plan.partition_of(step.slice.buffer).blocks, block).count;
    }
    for (std::uint32_t i = 0; i < step.count; ++i) {
      messages.push_back({view.out[plan.edges[step.first + i]], count});
    }
  }
  return messages;
}

void expect_verified(const Plans& plans, Expectation expectation) {
  for (const Order order : kOrders) {
    expectation.order = order;
    const Status status = verify(plans, expectation);
    EXPECT_TRUE(status.ok()) << plans.front().plan.operation << " " << plans.front().plan.algorithm
                             << " of " << plans.size() << " ranks: " << status.to_string();
  }
}

void expect_caught(const Plans& plans, Expectation expectation, Code code, std::string_view text) {
  for (const Order order : kOrders) {
    expectation.order = order;
    const Status status = verify(plans, expectation);
    EXPECT_EQ(status.code(), code);
    EXPECT_NE(status.text().find(text), std::string_view::npos) << status.to_string();
  }
}

}  // namespace weft
