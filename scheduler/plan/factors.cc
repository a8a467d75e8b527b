// factors: see the header. Trial division to the root: at most some ten thousand steps for any int.
#include "scheduler/plan/factors.h"

#include <iterator>

namespace weft {
namespace {

// base^exponent, or something above `most` as soon as it is above.
long long power(long long base, int exponent, long long most) {
  long long product = 1;
  for (int i = 0; i < exponent && product <= most; ++i) product *= base;
  return product;
}

}  // namespace

std::vector<int> prime_factors(int n) {
  std::vector<int> primes;
  for (int divisor = 2; divisor <= n / divisor; ++divisor) {
    for (; n % divisor == 0; n /= divisor) primes.push_back(divisor);
  }
  if (n > 1) primes.push_back(n);
  return primes;
}

int exact_root(int n, int root) {
  int base = 1;
  while (power(base + 1LL, root, n) <= n) ++base;
  return power(base, root, n) == n ? base : 0;
}

// The first factor is the largest divisor not above the root that leaves enough for the others.
std::vector<int> balanced_factors(int n, int count) {
  if (std::ssize(prime_factors(n)) < count) return {};
  std::vector<int> factors;
  for (; count > 1; --count) {
    int best = 0;
    for (int divisor = 2; power(divisor, count, n) <= n; ++divisor) {
      if (n % divisor == 0 && std::ssize(prime_factors(n / divisor)) >= count - 1) best = divisor;
    }
    factors.push_back(best);
    n /= best;
  }
  factors.push_back(n);
  return factors;
}

// Takes the largest primes first, and to each as many smaller ones as fit.
std::vector<int> few_factors(int n, int most) {
  std::vector<int> primes = prime_factors(n);
  std::vector<int> factors;
  while (!primes.empty()) {
    int factor = primes.back();
    primes.pop_back();
    for (std::size_t i = primes.size(); i-- > 0;) {
      if (factor > most / primes[i]) continue;
      factor *= primes[i];
      primes.erase(primes.begin() + static_cast<std::ptrdiff_t>(i));
    }
    factors.push_back(factor);
  }
  return factors;
}

}  // namespace weft
