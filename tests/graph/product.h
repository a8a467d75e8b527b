// The product of two matrices of weights, as a graph.
#pragma once

#include <weft/graph.h>

#include <vector>

namespace weft {

// Of applying `first`, then `second`.
inline Graph product(const Graph& second, const Graph& first) {
  const int n = first.size();
  std::vector<double> w;
  for (Rank i = 0; i < n; ++i) {
    for (Rank j = 0; j < n; ++j) {
      double sum = 0;
      for (Rank k = 0; k < n; ++k) sum += second.weight(i, k) * first.weight(k, j);
      w.push_back(sum);
    }
  }
  return Graph::from_matrix(n, w, "product").value();
}

}  // namespace weft
