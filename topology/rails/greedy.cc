// A heap of ranks by their edges with those placed. Entries are not updated, but pushed again, and
// taken only when they are still true.
#include "topology/rails/greedy.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <queue>

namespace weft {
namespace {

// The leaf of a machine on each rail.
std::vector<int> leaves_of(const Cluster& cluster, int machine) {
  std::vector<int> leaves;
  for (const Rail& rail : cluster.rails) leaves.push_back(rail.leaf_of(machine));
  return leaves;
}

// Are two machines below the same switches of that level, on the rails that have it?
bool share_switches(const Cluster& cluster, int level, int a, int b) {
  return std::ranges::all_of(cluster.rails, [=](const Rail& rail) {
    return level >= rail.depth() || rail.switch_of(level, a) == rail.switch_of(level, b);
  });
}

std::vector<int> machines_by_leaf(const Cluster& cluster) {
  std::vector<std::pair<std::vector<int>, int>> order;
  for (int m = 0; m < static_cast<int>(cluster.machines.size()); ++m)
    order.emplace_back(leaves_of(cluster, m), m);
  std::ranges::sort(order);
  std::vector<int> machines;
  for (const auto& [leaves, machine] : order) machines.push_back(machine);
  return machines;
}

class Greedy {
 public:
  explicit Greedy(const Graph& graph)
      : graph_(graph),
        edges_(static_cast<std::size_t>(graph.size())),
        placed_(static_cast<std::size_t>(graph.size()), false) {
    for (Rank rank = 0; rank < graph.size(); ++rank) push(rank);
  }

  // Forgets the edges with what stood before: 0: on the machine; l: below the switches of level
  // l - 1.
  void next(int around) {
    for (const Rank rank : with_[at(around)]) {
      edges_[at(rank)][at(around)] = 0;
      push(rank);
    }
    with_[at(around)].clear();
  }

  // The next rank for this machine; call it no more than there are ranks.
  Rank take() {
    while (placed_[at(heap_.top().rank())] || !is_true(heap_.top())) heap_.pop();
    const Rank rank = heap_.top().rank();
    placed_[at(rank)] = true;
    for (const Peer& peer : graph_.in_edges(rank)) count(peer.rank);
    for (const Peer& peer : graph_.out_edges(rank)) count(peer.rank);
    return rank;
  }

 private:
  // Of a rank, with those placed on the machine, below the switch of each level, anywhere.
  using Edges = std::array<int, kMostSwitchLevels + 2>;
  static constexpr std::size_t kAnywhere = kMostSwitchLevels + 1;
  struct Entry {
    Edges edges;
    int rank_negated;
    [[nodiscard]] Rank rank() const { return -rank_negated; }
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  [[nodiscard]] bool is_true(const Entry& one) const { return edges_[at(one.rank())] == one.edges; }
  void push(Rank rank) { heap_.push({edges_[at(rank)], -rank}); }

  void count(Rank rank) {
    if (placed_[at(rank)]) return;
    Edges& edges = edges_[at(rank)];
    for (std::size_t around = 0; around < kAnywhere; ++around)
      if (edges[around]++ == 0) with_[around].push_back(rank);
    ++edges[kAnywhere];
    push(rank);
  }

  const Graph& graph_;
  std::vector<Edges> edges_;  // by rank
  std::vector<bool> placed_;
  std::array<std::vector<Rank>, kAnywhere> with_;  // ranks that have edges with it
  std::priority_queue<Entry> heap_;
};

}  // namespace

std::vector<int> seats_by_switch(const Cluster& cluster, int seats) {
  std::vector<int> order;
  for (const int machine : machines_by_leaf(cluster)) {
    const ClusterMachine& one = cluster.machines[static_cast<std::size_t>(machine)];
    for (int seat = one.first_rank; seat < std::min(one.first_rank + one.ranks, seats); ++seat)
      order.push_back(seat);
  }
  return order;
}

Placement greedy_placement(const Cluster& cluster, const Graph& graph, int seats) {
  Placement placement = Placement::identity(graph.size());
  Greedy greedy(graph);
  int left = graph.size();
  const auto levels = static_cast<int>(kMostSwitchLevels);
  int last = 0;
  for (const int machine : machines_by_leaf(cluster)) {
    greedy.next(0);
    for (int level = 0; level < levels && !share_switches(cluster, level, last, machine); ++level)
      greedy.next(level + 1);
    last = machine;
    const ClusterMachine& one = cluster.machines[static_cast<std::size_t>(machine)];
    const int end = std::min(one.first_rank + one.ranks, seats);
    for (int seat = one.first_rank; seat < end && left > 0; ++seat, --left)
      placement.seat[static_cast<std::size_t>(greedy.take())] = seat;
  }
  return placement;
}

}  // namespace weft
