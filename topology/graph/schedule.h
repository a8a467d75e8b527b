// Schedule: a graph that changes every step. Step k gives each rank its LocalView, which the rank
// computes alone, without asking anyone; what it says is consistent: j sends to i at step k exactly
// if i receives from j then, with one weight for both.
//
// A Schedule is an immutable value, cheap to copy, safe from any thread. Steps count from 0 and may
// be any number. n = 1, one machine, or no out-neighbor: the step has no peer and the self weight
// is 1.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "topology/graph/digraph.h"

namespace weft {

class Schedule {
 public:
  using View = std::function<LocalView(std::uint64_t step, Rank rank)>;
  struct Traits {
    std::string name;
    int size = 1;
    // The views repeat after this many steps.
    std::uint64_t period = 1;
    // Within any run of this many steps every edge of the schedule occurs. At most the period, and
    // far below it where ranks of different degrees take turns.
    std::uint64_t cover = 1;
  };

  // A schedule of one's own; `view` must be pure. check_consistent tells whether it keeps the
  // promise.
  Schedule(Traits traits, View view)
      : shared_(std::make_shared<const Shared>(Shared{std::move(traits), std::move(view)})) {}
  // Copies share; there is no move on purpose, as for Graph.
  Schedule(const Schedule&) = default;
  Schedule& operator=(const Schedule&) = default;
  ~Schedule() = default;

  [[nodiscard]] const std::string& name() const { return shared_->traits.name; }
  [[nodiscard]] int size() const { return shared_->traits.size; }
  // Saturates at 2^64-1 for graphs of very many different degrees.
  [[nodiscard]] std::uint64_t period() const { return shared_->traits.period; }
  [[nodiscard]] std::uint64_t cover() const { return shared_->traits.cover; }
  // O(degree) in every schedule below, times O(log degree) in one_peer.
  [[nodiscard]] LocalView local_view(std::uint64_t step, Rank rank) const {
    invariant(rank >= 0 && rank < size(), "a rank outside the schedule");
    return shared_->view(step, rank);
  }

 private:
  struct Shared {
    Traits traits;
    View view;
  };
  std::shared_ptr<const Shared> shared_;
};

// One-peer on any graph: at step k rank r sends to its out-neighbor number k mod out-degree(r),
// counted clockwise from r (r + 1 first), and receives from all whose turn points at it. Push
// weights 1/2, 1/2.
Schedule one_peer(const Graph& graph);

// SGP (Assran et al., ICML 2019): to (r + 2^(k mod c)) mod n, c = ceil(log2 n); weights 1/2. For n
// = 2^m the product of m steps is exactly averaging.
Result<Schedule> one_peer_exponential(int n);
// The same with hops number k and k+1 of the cycle; weights 1/3 (1/2 where the cycle has one hop).
Result<Schedule> two_peer_exponential(int n);
// Pairs, both ways (D-PSGD in the SGP paper): odd rank r with (r + 2^(1 + k mod m) - 1) mod n, m =
// max(1, ceil(log2 n)); weights 1/2. n is even, or 1. The paper's floor(log2(n-1)) never mixes n =
// 4.
Result<Schedule> undirected_one_peer(int n);

// Over machines instead of ranks: machine m sends to m + 2^(k mod (floor(log2(M-1)) + 1)) mod M.
Result<Schedule> machine_exponential(int machines);

// Ranks count machine by machine: rank = machine * local_size + local rank.
struct MachineShape {
  int machines = 1;
  int local_size = 1;
};
// At step k local rank k mod L goes outside: to the same local rank of the next machine (ring), or
// of machine + 2^(k mod (floor(log2(M-1)) + 1)) (exponential). The others go to the next local
// rank, or to local rank + 2^(k mod (floor(log2(L-2)) + 1)); a hop that reaches or passes the one
// outside is one longer. Weights 1/2. L is above 2, or there is just one rank.
Result<Schedule> inner_outer_ring(MachineShape shape);
Result<Schedule> inner_outer_exponential(MachineShape shape);

// All ranks' views of one step as one graph; mismatch where they contradict each other:
// "step 2: edge 3 -> 5 is sent but not received". O(ranks + edges).
Result<Graph> step_graph(const Schedule& schedule, std::uint64_t step);
// step_graph over every step of the cover: ok, or the first contradiction.
Status check_consistent(const Schedule& schedule);
// Every edge that occurs in a period, with uniform weights.
Result<Graph> union_graph(const Schedule& schedule);

}  // namespace weft
