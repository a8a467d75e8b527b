// factors: how a number of ranks or machines is a product. Internal. Pure functions of small cost.
#pragma once

#include <vector>

namespace weft {

// The prime factors of n >= 1, ascending, each as often as it divides n.
[[nodiscard]] std::vector<int> prime_factors(int n);
// The integer whose `root`-th power is n, or 0 if there is none.
[[nodiscard]] int exact_root(int n, int root);
// n as a product of `count` factors of at least 2 that are near each other. Empty if n has too few
// prime factors.
[[nodiscard]] std::vector<int> balanced_factors(int n, int count);
// n as a product of few factors. A factor above `most` is prime. Empty for n = 1.
[[nodiscard]] std::vector<int> few_factors(int n, int most);

}  // namespace weft
