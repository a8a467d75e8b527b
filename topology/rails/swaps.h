// The local search for a placement. Internal to the module. Two seats exchange their ranks if that
// lowers the strain on the links (Traffic::strain), or raises it by less than a threshold that
// falls to 0. This is threshold accepting (Dueck and Scheuer, 1990). It needs no exponential
// function, and so gives the same result on every machine.
#pragma once

#include <random>
#include <vector>

#include "topology/rails/traffic.h"

namespace weft {

class Swaps {
 public:
  // Keeps references. `seats` has all seats, in the order of seats_by_switch().
  Swaps(const Routes& routes, const Graph& graph, std::vector<int> seats, const Placement& start,
        const PlacementSearch& search);

  void run();
  [[nodiscard]] int tried() const { return tried_; }
  // The placement with the least strain. Call it once, after run().
  [[nodiscard]] Placement best();

 private:
  // Two indices into seats_.
  struct Pair {
    std::size_t a;
    std::size_t b;
  };

  [[nodiscard]] std::size_t below(std::size_t bound) { return random_() % bound; }
  [[nodiscard]] Pair pick();
  // Returns how much the strain has changed.
  double swap(Pair pair);
  void exchange(Pair pair);
  void count_edges(Pair pair, bool adds);
  void count_edges(Rank rank, Rank except, bool adds);
  void count_edge(Rank from, Rank to, bool adds);
  [[nodiscard]] double strain() const;
  [[nodiscard]] double first_threshold();

  const Routes& routes_;
  const Graph& graph_;
  const PlacementSearch& search_;
  std::vector<int> seats_;
  std::vector<Rank> rank_at_;          // by place in seats_; kNoRank: free
  std::vector<std::size_t> place_of_;  // by rank
  Traffic traffic_;
  double scale_ = 1;
  std::int64_t without_way_ = 0;
  Route route_;
  std::mt19937_64 random_;
  int tried_ = 0;
  std::vector<Pair> since_best_;  // swaps made since the best placement, to be undone
};

}  // namespace weft
