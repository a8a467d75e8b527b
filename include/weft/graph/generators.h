// The graphs that users know by name. Every generator is a pure function of its arguments: all
// ranks that call it with the same arguments get the same graph, on every platform. n = 1 is always
// legal (no edges). A graph's name() is the text from which make_graph makes it again.
//
// Weights are uniform. Graphs marked (MH) are irregular and have Metropolis–Hastings weights.
// `reweighted` changes the weights. Names and edges of exponential … fully connected follow
// BlueFog's topology_util. BCube is that of Guo et al., SIGCOMM 2009, as Canary uses it.
#pragma once

#include <weft/graph/digraph.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace WEFT_PUBLIC weft {

// j -> j + d mod n for every d in 1…n-1 that is a power of base (base^0 included).
Result<Graph> exponential_graph(int n, int base = 2);
// j -> j + d mod n for every d in 1…n-1 such that d (if d <= n/2) or n - d (else) is a power of base.
// The graph is symmetric.
Result<Graph> symmetric_exponential_graph(int n, int base = 4);

struct GridShape {
  int rows = 1;
  int columns = 1;
};
// The default shape: rows is the largest divisor of n that is not above sqrt(n).
[[nodiscard]] GridShape grid_shape(int n);
// Up to 4 neighbors on a grid of rows x columns without wrap-around; ranks count row by row. (MH)
Result<Graph> grid_graph(int n, std::optional<GridShape> shape = std::nullopt);

// Edges between the center and every other rank, both ways, with weight 1/n. The self weight of the
// center is 1/n, that of the others 1 - 1/n.
Result<Graph> star_graph(int n, Rank center = 0);

enum class RingStyle : std::uint8_t { both = 0, previous = 1, next = 2 };  // j -> j±1, j-1, j+1
Result<Graph> ring_graph(int n, RingStyle style = RingStyle::both);

Result<Graph> fully_connected_graph(int n);

// Neighbors are ±1 in each dimension, with wrap-around. Ranks count row-major, the last dimension
// fastest.
Result<Graph> torus_graph(const std::vector<int>& dims);

// Neighbors differ in one bit; n is a power of two.
Result<Graph> hypercube_graph(int n);

// A rank is a number of `digits` digits in base `base`. Neighbors differ in exactly one digit.
// n = base^digits.
struct BcubeShape {
  int base = 2;
  int digits = 1;
};
Result<Graph> bcube_graph(BcubeShape shape);

// Edges between rank i and its children k*i + 1 … k*i + k, both ways. (MH)
Result<Graph> tree_graph(int n, int children = 2);

// An undirected graph in which every rank has `degree` neighbors. It is a circulant graph after ten
// random swaps of edge ends per edge, so generation always succeeds. From degree 3 on the graph is
// likely connected, but that is not promised. With n = 1 any degree is legal.
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
