// plans: all ranks' plans of one collective, and graphs to plan on. What the tests of this folder
// share.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "scheduler/plan/plan.h"
#include "scheduler/verify/verify.h"

namespace weft {

inline constexpr Shape kApart{false};
inline constexpr Shape kInPlace{true};
inline constexpr Order kOrders[] = {Order::round_robin, Order::eager, Order::random};

using Plans = std::vector<Planned>;

[[nodiscard]] Plans allreduce_plans(int size, std::size_t bytes, Shape shape,
                                    AllreduceAlgorithm algorithm, const Layout& layout = {});
[[nodiscard]] Plans broadcast_plans(int size, Rank root, std::size_t bytes, Shape shape);
[[nodiscard]] Plans barrier_plans(int size);
[[nodiscard]] Plans neighbor_allreduce_plans(const std::vector<View>& views, Shape shape);
[[nodiscard]] Plans neighbor_allgather_plans(const std::vector<View>& views);

// All ranks' plans that `plan(rank)` gives; and the plans of an operation of some ranks, the
// others' being empty.
template <typename Make>
[[nodiscard]] Plans plans_of(int size, Make make) {
  Plans plans;
  for (Rank rank = 0; rank < size; ++rank) plans.push_back(make(rank));
  return plans;
}
[[nodiscard]] Plans idle_plans(int size);
[[nodiscard]] Plans send_plans(int size, Rank from, Rank to);
[[nodiscard]] Plans pair_average_plans(const std::vector<std::pair<Rank, Rank>>& pairs, int size,
                                       Shape shape);
// Places of the group become its ranks, which ascend.
[[nodiscard]] Plans group_average_plans(int size, const std::vector<Rank>& group, std::size_t bytes,
                                        Shape shape);

// The views of a directed graph with edge j -> i where has_edge(j, i).
template <typename HasEdge>
[[nodiscard]] std::vector<View> views_of(int size, HasEdge has_edge) {
  std::vector<View> views;
  for (Rank rank = 0; rank < size; ++rank) {
    View view{rank, size, {}, {}};
    for (Rank peer = 0; peer < size; ++peer) {
      if (peer != rank && has_edge(peer, rank)) view.in.push_back(peer);
      if (peer != rank && has_edge(rank, peer)) view.out.push_back(peer);
    }
    views.push_back(view);
  }
  return views;
}

// Every directed edge with chance percent / 100, so degrees differ between directions and may be 0.
[[nodiscard]] std::vector<View> random_views(int size, std::uint32_t percent, std::uint64_t seed);
// Edges to the ranks 1, 2, 4, … further on.
[[nodiscard]] std::vector<View> exponential_views(int size);

// Machines with these numbers of ranks: rank after rank, or dealt out at random.
[[nodiscard]] Layout layout_of(const std::vector<int>& counts);
[[nodiscard]] Layout scattered_layout(const std::vector<int>& counts, std::uint64_t seed);

// What a rank sends, message by message.
struct Sent {
  Rank to;
  std::size_t elements;
};
[[nodiscard]] std::vector<Sent> sent_by(const Planned& planned, std::size_t elements);

// Verifies in every order.
void expect_verified(const Plans& plans, Expectation expectation);
// A fault is found in every order, as none depends on who runs first, and `text` says where.
void expect_caught(const Plans& plans, Expectation expectation, Code code, std::string_view text);

}  // namespace weft
