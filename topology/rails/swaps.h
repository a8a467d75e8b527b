// Internal to the module: the local search. Two seats change their ranks if that lowers the strain
// on the links, or raises it by less than a threshold that falls to nothing: threshold accepting
// (Dueck and Scheuer, 1990), which needs no exponential and so gives the same on every machine.
#pragma once

#include <random>
#include <vector>

#include "topology/rails/traffic.h"

namespace weft {

class Swaps {
 public:
  // Keeps references. `seats`: all of them, near ones near each other.
  Swaps(const Routes& routes, const Graph& graph, std::vector<int> seats, const Placement& start,
        const PlacementSearch& search);

  void run();
  [[nodiscard]] int tried() const { return tried_; }
  // That of least strain; call it once, after run().
  [[nodiscard]] Placement best();

 private:
  // Places in seats_.
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
  std::vector<Pair> since_best_;  // swaps to take back
};

}  // namespace weft
