// The random graphs: one seed gives one graph on every platform and library (Draws).
#include <fmt/format.h>
#include <weft/graph/generators.h>
#include <weft/macros.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "topology/graph/structure.h"
#include "verbs/base/base.h"

namespace weft {
namespace {

using Pair = std::pair<Rank, Rank>;

std::uint64_t key(Rank a, Rank b) {
  const auto [low, high] = std::minmax(a, b);
  return static_cast<std::uint64_t>(low) << 32 | static_cast<std::uint64_t>(high);
}

// An undirected graph in which everyone has `degree` neighbors: hops 1…degree/2, and n/2 when
// degree is odd (n is even then).
std::vector<Pair> circulant_pairs(int n, int degree) {
  std::vector<Pair> pairs;
  for (int hop = 1; hop <= degree / 2; ++hop) {
    for (Rank rank = 0; rank < n; ++rank) pairs.emplace_back(rank, (rank + hop) % n);
  }
  if (degree % 2 == 1) {
    for (Rank rank = 0; rank < n / 2; ++rank) pairs.emplace_back(rank, rank + n / 2);
  }
  return pairs;
}

// Exchanges the ends of two random edges, ten times per edge on average; degrees stay what they
// are. A swap that would make a self edge or an edge twice is skipped.
void shuffle_ends(std::vector<Pair>& pairs, Draws& draws) {
  std::unordered_set<std::uint64_t> present;
  for (const auto& [a, b] : pairs) present.insert(key(a, b));
  for (std::size_t swap = 0; swap < 10 * pairs.size(); ++swap) {
    Pair& first = pairs[draws.below(pairs.size())];
    Pair& second = pairs[draws.below(pairs.size())];
    const auto [a, b] = first;
    auto [c, d] = second;
    if (draws.below(2) == 1) std::swap(c, d);
    if (a == d || b == c || present.contains(key(a, d)) || present.contains(key(c, b))) continue;
    present.erase(key(a, b));
    present.erase(key(c, d));
    present.insert(key(a, d));
    present.insert(key(c, b));
    first = {a, d};
    second = {c, b};
  }
}

}  // namespace

Result<Graph> random_regular_graph(int n, RandomRegular options) {
  const auto [degree, seed] = options;
  WEFT_RETURN_IF_ERROR(check_graph_size(n, degree));
  if (degree < 0 || (n > 1 && (degree >= n || (n % 2 == 1 && degree % 2 == 1)))) {
    return Status(
        Code::invalid_argument,
        fmt::format("d = {}: a regular graph of n = {} ranks needs 0 <= d < n and n * d even",
                    degree, n));
  }
  std::vector<Pair> pairs;
  if (n > 1) pairs = circulant_pairs(n, degree);
  Draws draws(seed);
  shuffle_ends(pairs, draws);
  Structure structure(n);
  for (const auto& [a, b] : pairs) structure.add_both(a, b);
  return structure.weighted(WeightRule::uniform,
                            fmt::format("random_regular:d={},seed={}", degree, seed));
}

Result<Graph> erdos_renyi_graph(int n, RandomPairs options) {
  const auto [probability, seed] = options;
  // Every pair is drawn, so their number is bounded like edges, whatever the probability.
  WEFT_RETURN_IF_ERROR(check_graph_size(n, n - 1));
  if (!(probability >= 0 && probability <= 1)) {
    return Status(Code::invalid_argument,
                  fmt::format("p = {}: a probability is in 0…1", probability));
  }
  Draws draws(seed);
  Structure structure(n);
  for (Rank a = 0; a < n; ++a) {
    for (Rank b = a + 1; b < n; ++b) {
      if (draws.unit() < probability) structure.add_both(a, b);
    }
  }
  return structure.weighted(WeightRule::metropolis_hastings,
                            fmt::format("erdos_renyi:p={},seed={}", probability, seed));
}

}  // namespace weft
