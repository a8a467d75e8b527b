// The arithmetic that follows MPI_Neighbor_allgather, as a good user of MPI would write it: one
// pass over all inputs, vectorized by the compiler for the CPU at hand. The peer gets no slower sum
// than it can have.
#pragma once

#include <cstddef>
#include <span>

namespace weft::peers {

// y[i] = self_weight * x[i] + sum over k of weights[k] * gathered[k * count + i], for i < count.
void weighted_sum(float self_weight, const float* x, std::span<const float> weights,
                  const float* gathered, float* y, std::size_t count);

}  // namespace weft::peers
