// Draws: random numbers from a seed. The standard fixes the output of mt19937_64 but not that of the
// distributions over it, so the arithmetic that turns output into choices is ours: one seed gives
// the same choices on every platform and library.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <utility>

namespace weft {

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : engine_(seed) {}

  // Uniform in 0…bound-1; values of the last, incomplete run of `bound` are drawn again.
  std::size_t below(std::size_t bound) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t limit = kMost - kMost % bound;
    std::uint64_t value = engine_();
    while (value >= limit) value = engine_();
    return value % bound;
  }
  // Uniform in [0, 1), a multiple of 2^-53, so exact in a double.
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

  // Puts the values in random order, each order with the same probability.
  template <typename Value>
  void shuffle(std::span<Value> values) {
    for (std::size_t left = values.size(); left > 1; --left)
      std::swap(values[left - 1], values[below(left)]);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace weft
