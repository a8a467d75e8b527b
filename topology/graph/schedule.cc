// The schedules. All but one-peer on a graph are permutations with equal shares, so that a view is
// the peers that this step's hop leads to, and those that the same hop leads from.
#include <fmt/format.h>
#include <weft/graph/properties.h>
#include <weft/graph/schedule.h>
#include <weft/macros.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace weft {
namespace {

// The number of hops 1, 2, 4, … below n: ceil(log2 n), which is floor(log2(n-1)) + 1 for n above 1.
int hop_count(int n) {
  return std::bit_width(static_cast<unsigned>(n - 1));
}

// Hop number `step` of the cycle 1, 2, 4, …, 2^(count-1).
int cycle_hop(std::uint64_t step, int count) {
  return 1 << static_cast<int>(step % static_cast<std::uint64_t>(count));
}

Rank plus(Rank rank, int hop, int n) {
  return static_cast<Rank>((std::int64_t{rank} + hop) % n);
}
Rank minus(Rank rank, int hop, int n) {
  return plus(rank, n - hop, n);
}

void sort_by_rank(std::vector<Peer>& peers) {
  std::sort(peers.begin(), peers.end(),
            [](const Peer& a, const Peer& b) { return a.rank < b.rank; });
}

// The view of a step in which `rank` sends to rank + hop and receives from rank - hop for every
// hop.
LocalView hop_view(Rank rank, int n, const std::vector<int>& hops) {
  const double share = 1.0 / static_cast<double>(hops.size() + 1);
  LocalView view{rank, n, {}, {}, share};
  for (const int hop : hops) {
    view.in.push_back({minus(rank, hop, n), share});
    view.out.push_back({plus(rank, hop, n), share});
  }
  sort_by_rank(view.in);
  sort_by_rank(view.out);
  return view;
}

std::uint64_t at_least_one(int count) {
  return static_cast<std::uint64_t>(std::max(1, count));
}

Schedule one_hop(std::string name, int n) {
  const int count = hop_count(n);
  return Schedule({std::move(name), n, at_least_one(count), at_least_one(count)},
                  [n, count](std::uint64_t step, Rank rank) {
                    if (count == 0) return hop_view(rank, n, {});
                    return hop_view(rank, n, {cycle_hop(step, count)});
                  });
}

std::uint64_t saturating_lcm(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t factor = b / std::gcd(a, b);
  return a > kMost / factor ? kMost : a * factor;
}

// The out-neighbor of `sender` whose turn it is; the sender has at least one.
Rank whose_turn(const Graph& graph, std::uint64_t step, Rank sender) {
  const std::span<const Peer> out = graph.out_edges(sender);
  const auto clockwise = std::upper_bound(
      out.begin(), out.end(), sender, [](Rank rank, const Peer& peer) { return rank < peer.rank; });
  const auto first = static_cast<std::uint64_t>(clockwise - out.begin());
  return out[(first + step % out.size()) % out.size()].rank;
}

LocalView one_peer_view(const Graph& graph, std::uint64_t step, Rank rank) {
  constexpr double kShare = 0.5;
  LocalView view{rank, graph.size(), {}, {}, 1};
  if (!graph.out_edges(rank).empty()) {
    view.self_weight = kShare;
    view.out.push_back({whose_turn(graph, step, rank), kShare});
  }
  for (const Peer& source : graph.in_edges(rank)) {
    if (whose_turn(graph, step, source.rank) == rank) view.in.push_back({source.rank, kShare});
  }
  return view;
}

// The hop of local rank `local`, made one longer where it reaches or passes the one outside, which
// is `distance` steps ahead (for receiving: behind).
int around(int hop, int distance) {
  return hop >= distance ? hop + 1 : hop;
}

LocalView inner_outer_view(MachineShape shape, std::uint64_t step, Rank rank, int outer_hop,
                           int inner_hop) {
  const auto [machines, locals] = shape;
  const int n = machines * locals;
  const int machine = rank / locals;
  const int local = rank % locals;
  const int outside = static_cast<int>(step % static_cast<std::uint64_t>(locals));
  if (local == outside) {
    return machines == 1 ? hop_view(rank, n, {}) : hop_view(rank, n, {outer_hop * locals});
  }
  const int ahead = around(inner_hop, minus(outside, local, locals));
  const int behind = around(inner_hop, minus(local, outside, locals));
  const Rank to = machine * locals + plus(local, ahead, locals);
  const Rank from = machine * locals + minus(local, behind, locals);
  return {rank, n, {{from, 0.5}}, {{to, 0.5}}, 0.5};
}

// `outer` and `inner` are the numbers of hops in the two cycles; 1 makes a ring.
Result<Schedule> inner_outer(std::string_view kind, MachineShape shape, int outer, int inner) {
  const auto [machines, locals] = shape;
  const bool single = machines == 1 && locals == 1;
  if (machines < 1 || (locals < 3 && !single)) {
    return Status(
        Code::invalid_argument,
        fmt::format("{} of {} machines x {} ranks: needs at least 1 machine and 3 ranks each", kind,
                    machines, locals));
  }
  if (locals > kMostRanks / machines) {
    return Status(Code::invalid_argument,
                  fmt::format("{} of {} machines x {} ranks: more than {} ranks", kind, machines,
                              locals, kMostRanks));
  }
  const std::uint64_t period = std::lcm(
      std::lcm(static_cast<std::uint64_t>(locals), at_least_one(outer)), at_least_one(inner));
  return Schedule({fmt::format("{}:local={}", kind, locals), machines * locals, period, period},
                  [shape, outer, inner](std::uint64_t step, Rank rank) {
                    return inner_outer_view(shape, step, rank, cycle_hop(step, std::max(1, outer)),
                                            cycle_hop(step, std::max(1, inner)));
                  });
}

}  // namespace

Schedule one_peer(const Graph& graph) {
  std::uint64_t period = 1;
  for (Rank r = 0; r < graph.size(); ++r) {
    period = saturating_lcm(period, std::max<std::uint64_t>(1, graph.out_edges(r).size()));
  }
  return Schedule(
      {"one_peer:" + graph.name(), graph.size(), period, at_least_one(max_out_degree(graph))},
      [graph](std::uint64_t step, Rank rank) { return one_peer_view(graph, step, rank); });
}

Result<Schedule> one_peer_exponential(int n) {
  WEFT_RETURN_IF_ERROR(check_graph_size(n, 0));
  return one_hop("one_peer_exponential", n);
}

Result<Schedule> two_peer_exponential(int n) {
  WEFT_RETURN_IF_ERROR(check_graph_size(n, 0));
  const int count = hop_count(n);
  if (count < 2) return one_hop("two_peer_exponential", n);
  return Schedule({"two_peer_exponential", n, at_least_one(count), at_least_one(count)},
                  [n, count](std::uint64_t step, Rank rank) {
                    const std::uint64_t turn = step % static_cast<std::uint64_t>(count);
                    return hop_view(rank, n, {cycle_hop(turn, count), cycle_hop(turn + 1, count)});
                  });
}

Result<Schedule> undirected_one_peer(int n) {
  WEFT_RETURN_IF_ERROR(check_graph_size(n, 0));
  if (n == 1) return one_hop("undirected_one_peer", n);
  if (n % 2 == 1) {
    return Status(
        Code::invalid_argument,
        fmt::format("n = {}: undirected one-peer pairs odd with even ranks, n must be even", n));
  }
  const int count = hop_count(n);
  return Schedule({"undirected_one_peer", n, at_least_one(count), at_least_one(count)},
                  [n, count](std::uint64_t step, Rank rank) -> LocalView {
                    const int hop = (2 * cycle_hop(step, count) - 1) % n;
                    const Rank peer = rank % 2 == 1 ? plus(rank, hop, n) : minus(rank, hop, n);
                    return {rank, n, {{peer, 0.5}}, {{peer, 0.5}}, 0.5};
                  });
}

Result<Schedule> machine_exponential(int machines) {
  WEFT_RETURN_IF_ERROR(check_graph_size(machines, 0));
  return one_hop("machine_exponential", machines);
}

Result<Schedule> inner_outer_ring(MachineShape shape) {
  return inner_outer("inner_outer_ring", shape, 1, 1);
}

Result<Schedule> inner_outer_exponential(MachineShape shape) {
  const int outer = shape.machines > 1 ? hop_count(shape.machines) : 1;
  const int inner = shape.local_size > 2 ? hop_count(shape.local_size - 1) : 1;
  return inner_outer("inner_outer_exponential", shape, outer, inner);
}

}  // namespace weft
