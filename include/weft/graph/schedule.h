// Schedule: a graph that changes at every step. Each rank computes its LocalView of step k alone,
// without asking anyone. The views of all ranks are consistent: j sends to i at step k exactly if i
// receives from j at step k, and both have the same weight.
//
// A Schedule is an immutable value, cheap to copy, and may be used from any thread. Steps count
// from 0 and may be any number. If there is only one rank or one machine, or a rank has no
// out-neighbor, its step has no peer and the self weight is 1.
#pragma once

#include <weft/graph/digraph.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace WEFT_PUBLIC weft {

class Schedule {
 public:
  using View = std::function<LocalView(std::uint64_t step, Rank rank)>;
  struct Traits {
    std::string name;
    int size = 1;
    // The views repeat after this many steps.
    std::uint64_t period = 1;
    // Every edge of the schedule occurs within any `cover` consecutive steps. The cover is at most
    // the period, and much smaller if ranks of different degrees take turns.
    std::uint64_t cover = 1;
  };

  // A schedule defined by the caller. `view` must be a pure function. check_consistent() checks
  // that the views are consistent.
  Schedule(Traits traits, View view)
      : shared_(std::make_shared<const Shared>(Shared{std::move(traits), std::move(view)})) {}
  // Copies share the storage. There is no move on purpose, as for Graph.
  Schedule(const Schedule&) = default;
  Schedule& operator=(const Schedule&) = default;
  ~Schedule() = default;

  [[nodiscard]] const std::string& name() const { return shared_->traits.name; }
  [[nodiscard]] int size() const { return shared_->traits.size; }
  // At most 2^64-1, also if the true period is longer (graphs with very many different degrees).
  [[nodiscard]] std::uint64_t period() const { return shared_->traits.period; }
  [[nodiscard]] std::uint64_t cover() const { return shared_->traits.cover; }
  // Costs O(degree) in every schedule below, and O(degree * log degree) in one_peer.
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

// One-peer on any graph. At step k, rank r sends to its out-neighbor number k mod out-degree(r),
// counted clockwise from r (r + 1 first). It receives from all ranks that send to it at this step.
// Push weights 1/2, 1/2.
Schedule one_peer(const Graph& graph);

// SGP (Assran et al., ICML 2019): to (r + 2^(k mod c)) mod n, c = ceil(log2 n); weights 1/2. For n
// = 2^m the product of m steps is exactly averaging.
Result<Schedule> one_peer_exponential(int n);
// Like one_peer_exponential with two peers, at hops number k and k+1 of the cycle. Weights 1/3, or
// 1/2 if the cycle has only one hop.
Result<Schedule> two_peer_exponential(int n);
// Pairs that exchange both ways (D-PSGD in the SGP paper): odd rank r with rank (r + 2^(1 + k mod
// m) - 1) mod n, where m = max(1, ceil(log2 n)). Weights 1/2. n is even, or 1. The paper's
// floor(log2(n-1)) instead of m never mixes n = 4.
Result<Schedule> undirected_one_peer(int n);

// Over machines instead of ranks: machine m sends to m + 2^(k mod (floor(log2(M-1)) + 1)) mod M.
Result<Schedule> machine_exponential(int machines);

// Ranks count machine by machine: rank = machine * local_size + local rank.
struct MachineShape {
  int machines = 1;
  int local_size = 1;
};
// M machines with L ranks each. At step k, local rank k mod L sends to another machine: to the same
// local rank of the next machine (ring), or of machine + 2^(k mod (floor(log2(M-1)) + 1))
// (exponential). The other ranks send inside their machine: to the next local rank (ring), or to
// local rank + 2^(k mod (floor(log2(L-2)) + 1)) (exponential). A hop inside that reaches or passes
// the rank which sends to another machine is one longer. Weights 1/2. L is above 2, or there is
// only one rank.
Result<Schedule> inner_outer_ring(MachineShape shape);
Result<Schedule> inner_outer_exponential(MachineShape shape);

// The views of all ranks at one step, as one graph. `mismatch` if they contradict each other: "step
// 2: edge 3 -> 5 is sent but not received". O(ranks + edges).
Result<Graph> step_graph(const Schedule& schedule, std::uint64_t step);
// Checks every step of the cover with step_graph(). Returns ok or the first contradiction.
Status check_consistent(const Schedule& schedule);
// Every edge that occurs in a period, with uniform weights.
Result<Graph> union_graph(const Schedule& schedule);

}  // namespace weft
