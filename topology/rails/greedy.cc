// A heap of ranks by their edges with those placed. Entries are not updated, but pushed again, and
// taken only when they are still true.
#include "topology/rails/greedy.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>

namespace weft {
namespace {

// The leaf of a machine on each rail.
std::vector<int> leaves_of(const Cluster& cluster, int machine) {
  std::vector<int> leaves;
  for (const Rail& rail : cluster.rails) leaves.push_back(rail.leaf_of(machine));
  return leaves;
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

  void next_leaf() { forget(with_leaf_, &Edges::leaf); }
  void next_machine() { forget(with_machine_, &Edges::machine); }

  // The next rank for this machine; call it no more than there are ranks.
  Rank take() {
    while (placed_[index(heap_.top())] || !is_true(heap_.top())) heap_.pop();
    const Rank rank = -std::get<3>(heap_.top());
    placed_[static_cast<std::size_t>(rank)] = true;
    for (const Peer& peer : graph_.in_edges(rank)) count(peer.rank);
    for (const Peer& peer : graph_.out_edges(rank)) count(peer.rank);
    return rank;
  }

 private:
  // Of a rank, with those placed on the machine, below the leaf, anywhere.
  struct Edges {
    int machine = 0;
    int leaf = 0;
    int anywhere = 0;
  };
  using Entry = std::tuple<int, int, int, int>;  // edges, the rank negated

  static std::size_t index(const Entry& entry) {
    return static_cast<std::size_t>(-std::get<3>(entry));
  }
  [[nodiscard]] Entry entry(Rank rank) const {
    const Edges& edges = edges_[static_cast<std::size_t>(rank)];
    return {edges.machine, edges.leaf, edges.anywhere, -rank};
  }
  [[nodiscard]] bool is_true(const Entry& one) const { return entry(-std::get<3>(one)) == one; }
  void push(Rank rank) { heap_.push(entry(rank)); }

  void count(Rank rank) {
    Edges& edges = edges_[static_cast<std::size_t>(rank)];
    if (placed_[static_cast<std::size_t>(rank)]) return;
    if (edges.machine++ == 0) with_machine_.push_back(rank);
    if (edges.leaf++ == 0) with_leaf_.push_back(rank);
    ++edges.anywhere;
    push(rank);
  }
  void forget(std::vector<Rank>& ranks, int Edges::*field) {
    for (const Rank rank : ranks) {
      edges_[static_cast<std::size_t>(rank)].*field = 0;
      push(rank);
    }
    ranks.clear();
  }

  const Graph& graph_;
  std::vector<Edges> edges_;  // by rank
  std::vector<bool> placed_;
  std::vector<Rank> with_machine_;
  std::vector<Rank> with_leaf_;
  std::priority_queue<Entry> heap_;
};

}  // namespace

std::vector<int> seats_by_leaf(const Cluster& cluster, int seats) {
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
  std::vector<int> leaves;
  for (const int machine : machines_by_leaf(cluster)) {
    std::vector<int> own = leaves_of(cluster, machine);
    if (own != leaves) greedy.next_leaf();
    leaves = std::move(own);
    greedy.next_machine();
    const ClusterMachine& one = cluster.machines[static_cast<std::size_t>(machine)];
    const int end = std::min(one.first_rank + one.ranks, seats);
    for (int seat = one.first_rank; seat < end && left > 0; ++seat, --left)
      placement.seat[static_cast<std::size_t>(greedy.take())] = seat;
  }
  return placement;
}

}  // namespace weft
