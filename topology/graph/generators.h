// The graphs that users know by name. Every generator is a pure function of its arguments: all
// ranks that call it with the same ones hold the same graph, on every platform. n = 1 is always
// legal (no edges). A graph's name() is the text from which make_graph makes it again.
//
// Weights: uniform unless said otherwise; those marked (MH) are irregular and take
// Metropolis–Hastings. `reweighted` changes them. Names and edges follow BlueFog's topology_util
// (exponential … fully connected); BCube is that of Guo et al., SIGCOMM 2009, as Canary uses it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "topology/graph/digraph.h"

namespace weft {

// j -> j + d mod n for every d in 1…n-1 that is a power of base (base^0 included).
Result<Graph> exponential_graph(int n, int base = 2);
// The same for d where d (if d <= n/2) or n - d (else) is a power of base: near both ways round.
Result<Graph> symmetric_exponential_graph(int n, int base = 4);

struct GridShape {
  int rows = 1;
  int columns = 1;
};
// The shape used when none is given: rows is the largest divisor of n not above sqrt(n).
[[nodiscard]] GridShape grid_shape(int n);
// 4-neighbors on rows x columns, row by row, no wrap. (MH)
Result<Graph> grid_graph(int n, std::optional<GridShape> shape = std::nullopt);

// center <-> every other; weights to and from it 1/n, its self weight 1/n, the others' 1 - 1/n.
Result<Graph> star_graph(int n, Rank center = 0);

enum class RingStyle : std::uint8_t { both = 0, previous = 1, next = 2 };  // j -> j±1, j-1, j+1
Result<Graph> ring_graph(int n, RingStyle style = RingStyle::both);

Result<Graph> fully_connected_graph(int n);

// ±1 with wrap in every dimension; ranks count row-major, the last dimension fastest.
Result<Graph> torus_graph(const std::vector<int>& dims);

// Neighbors differ in one bit; n is a power of two.
Result<Graph> hypercube_graph(int n);

// Ranks are `digits` digits in base `base`; neighbors differ in exactly one. n = base^digits.
struct BcubeShape {
  int base = 2;
  int digits = 1;
};
Result<Graph> bcube_graph(BcubeShape shape);

// Rank i and its children k*i + 1 … k*i + k, both ways. (MH)
Result<Graph> tree_graph(int n, int children = 2);

// Undirected, every rank with `degree` neighbors: a circulant graph after ten random swaps of edge
// ends per edge, so it always succeeds. Connectedness is likely from degree 3 on, not promised.
// With n = 1 any degree is legal.
struct RandomRegular {
  int degree = 3;
  std::uint64_t seed = 0;
};
Result<Graph> random_regular_graph(int n, RandomRegular options);

// Erdős–Rényi: each undirected pair is an edge with the given probability, independently. (MH)
struct RandomPairs {
  double probability = 0.5;
  std::uint64_t seed = 0;
};
Result<Graph> erdos_renyi_graph(int n, RandomPairs options);

}  // namespace weft
