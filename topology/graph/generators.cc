// The deterministic graphs. Most are circulant: the same hops from every rank.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <weft/graph/generators.h>
#include <weft/macros.h>

#include <bit>
#include <string>
#include <utility>

#include "topology/graph/structure.h"

namespace weft {
namespace {

Status invalid(std::string text) {
  return Status(Code::invalid_argument, std::move(text));
}

bool is_power(int x, int base) {
  while (x % base == 0) x /= base;
  return x == 1;
}

Status check_base(int base) {
  if (base >= 2) return {};
  return invalid(fmt::format("base = {}: powers are taken of a base of at least 2", base));
}

// j -> j + d mod n for every hop d; hops are distinct and in 1…n-1.
Result<Graph> circulant(int n, const std::vector<int>& hops, std::string name) {
  WEFT_RETURN_IF_ERROR(check_graph_size(n, std::ssize(hops)));
  Structure structure(n);
  for (const int hop : hops) {
    for (Rank j = 0; j < n; ++j) {
      structure.add(j, static_cast<Rank>((std::int64_t{j} + hop) % n));
    }
  }
  return structure.weighted(WeightRule::uniform, std::move(name));
}

// The product of all factors, each at least 1; more than kMostRanks is an error.
Result<int> rank_count(const std::vector<int>& factors) {
  std::int64_t product = 1;
  for (const int factor : factors) {
    if (factor < 1) return invalid(fmt::format("{}: a dimension is at least 1", factor));
    product *= factor;
    if (product > kMostRanks) {
      return invalid(fmt::format("{}: more than {} ranks", fmt::join(factors, "x"), kMostRanks));
    }
  }
  return static_cast<int>(product);
}

std::vector<int> ring_hops(int n, RingStyle style) {
  if (n == 1) return {};
  switch (style) {
    case RingStyle::previous:
      return {n - 1};
    case RingStyle::next:
      return {1};
    case RingStyle::both:
      break;
  }
  return n == 2 ? std::vector<int>{1} : std::vector<int>{1, n - 1};
}

}  // namespace

Result<Graph> exponential_graph(int n, int base) {
  WEFT_RETURN_IF_ERROR(check_base(base));
  std::vector<int> hops;
  for (std::int64_t d = 1; d < n; d *= base) hops.push_back(static_cast<int>(d));
  return circulant(n, hops, fmt::format("exponential:base={}", base));
}

Result<Graph> symmetric_exponential_graph(int n, int base) {
  WEFT_RETURN_IF_ERROR(check_base(base));
  WEFT_RETURN_IF_ERROR(check_graph_size(n, 0));
  std::vector<int> hops;
  for (int d = 1; d < n; ++d) {
    if (is_power(d <= n / 2 ? d : n - d, base)) hops.push_back(d);
  }
  return circulant(n, hops, fmt::format("symmetric_exponential:base={}", base));
}

GridShape grid_shape(int n) {
  int rows = 1;
  for (int d = 1; d <= n / d; ++d) {
    if (n % d == 0) rows = d;
  }
  return {rows, n / rows};
}

Result<Graph> grid_graph(int n, std::optional<GridShape> shape) {
  WEFT_RETURN_IF_ERROR(check_graph_size(n, 4));
  const auto [rows, columns] = shape.value_or(grid_shape(n));
  if (rows < 1 || columns < 1 || std::int64_t{rows} * columns != n) {
    return invalid(fmt::format("grid {}x{} does not have n = {} ranks", rows, columns, n));
  }
  Structure structure(n);
  for (Rank rank = 0; rank < n; ++rank) {
    if (rank % columns + 1 < columns) structure.add_both(rank, rank + 1);
    if (rank / columns + 1 < rows) structure.add_both(rank, rank + columns);
  }
  return structure.weighted(WeightRule::metropolis_hastings,
                            fmt::format("grid:{}x{}", rows, columns));
}

Result<Graph> star_graph(int n, Rank center) {
  WEFT_RETURN_IF_ERROR(check_graph_size(n, 2));
  if (center < 0 || center >= n) {
    return invalid(fmt::format("center = {}: outside 0…{}", center, n - 1));
  }
  const double share = 1.0 / n;
  std::vector<Edge> edges;
  std::vector<double> self_weights(static_cast<std::size_t>(n), 1 - share);
  self_weights[static_cast<std::size_t>(center)] = share;
  for (Rank rank = 0; rank < n; ++rank) {
    if (rank == center) continue;
    edges.push_back({center, rank, share});
    edges.push_back({rank, center, share});
  }
  return Graph::from_edges(n, edges, self_weights, fmt::format("star:center={}", center));
}

Result<Graph> ring_graph(int n, RingStyle style) {
  WEFT_RETURN_IF_ERROR(check_graph_size(n, 2));
  return circulant(n, ring_hops(n, style), fmt::format("ring:style={}", static_cast<int>(style)));
}

Result<Graph> fully_connected_graph(int n) {
  WEFT_RETURN_IF_ERROR(check_graph_size(n, n - 1));
  std::vector<int> hops;
  for (int d = 1; d < n; ++d) hops.push_back(d);
  return circulant(n, hops, "fully_connected");
}

Result<Graph> torus_graph(const std::vector<int>& dims) {
  if (dims.empty()) return invalid("a torus has at least one dimension");
  WEFT_ASSIGN(const int n, rank_count(dims));
  WEFT_RETURN_IF_ERROR(check_graph_size(n, 2 * std::ssize(dims)));
  Structure structure(n);
  int stride = n;
  for (const int dim : dims) {
    stride /= dim;
    for (Rank rank = 0; rank < n; ++rank) {
      const int digit = rank / stride % dim;
      const Rank next = rank + ((digit + 1) % dim - digit) * stride;
      // A dimension of 2 has one edge between its two ranks: seen from the other, next is also
      // previous.
      if (dim == 2) structure.add(rank, next);
      if (dim > 2) structure.add_both(rank, next);
    }
  }
  return structure.weighted(WeightRule::uniform, fmt::format("torus:{}", fmt::join(dims, "x")));
}

Result<Graph> hypercube_graph(int n) {
  WEFT_RETURN_IF_ERROR(check_graph_size(n, 0));
  if (!std::has_single_bit(static_cast<unsigned>(n))) {
    return invalid(fmt::format("n = {}: a hypercube has a power of two of ranks", n));
  }
  Structure structure(n);
  for (int bit = 1; bit < n; bit *= 2) {
    for (Rank rank = 0; rank < n; ++rank) structure.add(rank, rank ^ bit);
  }
  return structure.weighted(WeightRule::uniform, "hypercube");
}

Result<Graph> bcube_graph(BcubeShape shape) {
  const auto [base, digits] = shape;
  // 20 digits of base 2 are kMostRanks; base 1 would otherwise allow any number of them.
  if (base < 1 || digits < 0 || digits > 20) {
    return invalid(fmt::format("bcube a = {}, b = {}: a is at least 1, b in 0…20", base, digits));
  }
  WEFT_ASSIGN(const int n, rank_count(std::vector<int>(static_cast<std::size_t>(digits), base)));
  WEFT_RETURN_IF_ERROR(check_graph_size(n, std::int64_t{digits} * (base - 1)));
  Structure structure(n);
  for (int stride = 1; base > 1 && stride < n; stride *= base) {
    for (Rank rank = 0; rank < n; ++rank) {
      const int digit = rank / stride % base;
      for (int other = 0; other < base; ++other) {
        if (other != digit) structure.add(rank, rank + (other - digit) * stride);
      }
    }
  }
  return structure.weighted(WeightRule::uniform, fmt::format("bcube:a={},b={}", base, digits));
}

Result<Graph> tree_graph(int n, int children) {
  WEFT_RETURN_IF_ERROR(check_graph_size(n, 2));
  if (children < 1) {
    return invalid(fmt::format("k = {}: a rank of a tree has at least 1 child", children));
  }
  Structure structure(n);
  for (Rank rank = 1; rank < n; ++rank) structure.add_both((rank - 1) / children, rank);
  return structure.weighted(WeightRule::metropolis_hastings, fmt::format("tree:k={}", children));
}

}  // namespace weft
