// One swap costs the edges of two ranks. The best placement is not copied: the swaps since then are
// remembered, and taken back at the end.
#include "topology/rails/swaps.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <ranges>

namespace weft {
namespace {

constexpr int kAskEvery = 64;      // swaps: 1 ms, or 10 where ranks have hundreds of peers
constexpr int kCalibration = 128;  // swaps whose mean effect is the first threshold
// Tried for each rank; a search of fewer has no time to leave good places, and starts cooler.
constexpr double kLong = 1000;
constexpr double kNoWay = 1e3;  // strain of an edge that has none, in that of the busiest link

}  // namespace

Swaps::Swaps(const Routes& routes, const Graph& graph, std::vector<int> seats,
             const Placement& start, const PlacementSearch& search)
    : routes_(routes),
      graph_(graph),
      search_(search),
      seats_(std::move(seats)),
      rank_at_(seats_.size(), kNoRank),
      place_of_(static_cast<std::size_t>(graph.size())),
      traffic_(routes, search.map.bytes),
      random_(search.seed) {
  std::vector<std::size_t> place_of_seat(seats_.size());
  for (std::size_t place = 0; place < seats_.size(); ++place)
    place_of_seat[static_cast<std::size_t>(seats_[place])] = place;
  for (std::size_t rank = 0; rank < place_of_.size(); ++rank) {
    place_of_[rank] = place_of_seat[static_cast<std::size_t>(start.seat[rank])];
    rank_at_[place_of_[rank]] = static_cast<Rank>(rank);
  }
  for (const Edge& edge : graph.edges()) count_edge(edge.from, edge.to, true);
  const double busiest = traffic_.busiest_us();
  if (busiest > 0) scale_ = 1 / (busiest * busiest * busiest * busiest);
}

// A rank and, as often as not, someone near one of its peers; how near is drawn too.
Swaps::Pair Swaps::pick() {
  const auto rank = static_cast<Rank>(below(place_of_.size()));
  std::size_t center = place_of_[static_cast<std::size_t>(rank)];
  const auto peers = below(2) == 0 ? graph_.in_edges(rank) : graph_.out_edges(rank);
  if (!peers.empty()) center = place_of_[static_cast<std::size_t>(peers[below(peers.size())].rank)];
  const std::size_t reach = std::size_t{1}
                            << below(static_cast<std::size_t>(std::bit_width(seats_.size())));
  const std::size_t first = center > reach ? center - reach : 0;
  const std::size_t last = std::min(center + reach, seats_.size() - 1);
  return {place_of_[static_cast<std::size_t>(rank)], first + below(last - first + 1)};
}

void Swaps::run() {
  if (seats_.size() < 2) return;
  const double first = first_threshold();
  double now = strain();
  double best = now;
  for (; tried_ < search_.most_swaps; ++tried_) {
    if (tried_ % kAskEvery == 0 && search_.goes_on && !search_.goes_on()) break;
    const Pair pair = pick();
    if (pair.a == pair.b) continue;
    const double change = swap(pair);
    const double left = 1 - tried_ / static_cast<double>(search_.most_swaps);
    if (change > first * left * left * left) {
      swap(pair);
      continue;
    }
    now += change;
    since_best_.push_back(pair);
    constexpr double kRounding = 1e-9;
    if (now >= best - kRounding * best) continue;
    best = now;
    since_best_.clear();
  }
}

double Swaps::first_threshold() {
  double sum = 0;
  for (int i = 0; i < kCalibration; ++i) {
    const Pair pair = pick();
    if (pair.a == pair.b) continue;
    sum += std::abs(swap(pair));
    swap(pair);
  }
  const double length = search_.most_swaps / (kLong * static_cast<double>(place_of_.size()));
  return sum / kCalibration * std::min(length, 1.0);
}

Placement Swaps::best() {
  for (const Pair pair : std::views::reverse(since_best_)) exchange(pair);
  Placement placement;
  for (const std::size_t place : place_of_) placement.seat.push_back(seats_[place]);
  return placement;
}

double Swaps::swap(Pair pair) {
  const double before = strain();
  count_edges(pair, false);
  exchange(pair);
  count_edges(pair, true);
  return strain() - before;
}

void Swaps::exchange(Pair pair) {
  std::swap(rank_at_[pair.a], rank_at_[pair.b]);
  for (const std::size_t place : {pair.a, pair.b}) {
    const Rank rank = rank_at_[place];
    if (rank != kNoRank) place_of_[static_cast<std::size_t>(rank)] = place;
  }
}

void Swaps::count_edges(Pair pair, bool adds) {
  count_edges(rank_at_[pair.a], kNoRank, adds);
  count_edges(rank_at_[pair.b], rank_at_[pair.a], adds);  // those of both: once
}

void Swaps::count_edges(Rank rank, Rank except, bool adds) {
  if (rank == kNoRank) return;
  for (const Peer& peer : graph_.in_edges(rank))
    if (peer.rank != except) count_edge(peer.rank, rank, adds);
  for (const Peer& peer : graph_.out_edges(rank))
    if (peer.rank != except) count_edge(rank, peer.rank, adds);
}

void Swaps::count_edge(Rank from, Rank to, bool adds) {
  routes_.find({seats_[place_of_[static_cast<std::size_t>(from)]],
                seats_[place_of_[static_cast<std::size_t>(to)]]},
               route_);
  if (!route_.exists()) {
    without_way_ += adds ? 1 : -1;
  } else if (adds) {
    traffic_.add(route_);
  } else {
    traffic_.remove(route_);
  }
}

double Swaps::strain() const {
  return scale_ * traffic_.strain() + kNoWay * static_cast<double>(without_way_);
}

}  // namespace weft
