// Loops with the number of neighbors known to the compiler, so that one pass serves up to four of
// them; more are added in further passes over a block of y that stays in the first-level cache.
#include "bench/peers/weighted_sum.h"

#include <algorithm>
#include <array>

namespace weft::peers {
namespace {

constexpr std::size_t kBlock = 2048;  // floats: 8 KiB of y

template <std::size_t kNeighbors>
[[gnu::always_inline]] inline void accumulate(float self_weight, const float* x,
                                              const float* weights, const float* gathered,
                                              std::size_t stride, float* y, std::size_t count) {
  std::array<float, kNeighbors> w;
  std::copy_n(weights, kNeighbors, w.begin());
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    float sum = self_weight * x[i];
    for (std::size_t k = 0; k < kNeighbors; ++k) sum += w[k] * gathered[k * stride + i];
    y[i] = sum;
  }
}

[[gnu::always_inline]] inline void some(std::size_t neighbors, float self_weight, const float* x,
                                        const float* weights, const float* gathered,
                                        std::size_t stride, float* y, std::size_t count) {
  switch (neighbors) {
    case 0:
      return accumulate<0>(self_weight, x, weights, gathered, stride, y, count);
    case 1:
      return accumulate<1>(self_weight, x, weights, gathered, stride, y, count);
    case 2:
      return accumulate<2>(self_weight, x, weights, gathered, stride, y, count);
    case 3:
      return accumulate<3>(self_weight, x, weights, gathered, stride, y, count);
    default:
      return accumulate<4>(self_weight, x, weights, gathered, stride, y, count);
  }
}

}  // namespace

[[gnu::target_clones("arch=x86-64-v4,arch=x86-64-v3,default")]] void weighted_sum(
    float self_weight, const float* x, std::span<const float> weights, const float* gathered,
    float* y, std::size_t count) {
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t now = std::min(kBlock, count - first);
    some(std::min<std::size_t>(weights.size(), 4), self_weight, x + first, weights.data(),
         gathered + first, count, y + first, now);
    for (std::size_t k = 4; k < weights.size(); k += 4) {
      some(std::min<std::size_t>(weights.size() - k, 4), 1, y + first, weights.data() + k,
           gathered + k * count + first, count, y + first, now);
    }
  }
}

}  // namespace weft::peers
