// The public entry: finds the family of a type and asks it for its function; and means.
#include <algorithm>
#include <bit>

#include "engine/kernels/kernels.h"
#include "engine/kernels/select.h"

namespace weft {

CombineFunction select_combine(DataType type, Reduction reduction) {
  CombineFunction function = nullptr;
  if (!is_floating(type)) {
    function = select_integer(type, reduction);
  } else if (size_of(type) < 4) {
    function = select_narrow(type, reduction);
  } else {
    function = select_float(type, reduction);
  }
  invariant(function != nullptr, "only what check_reduction() allows is combined");
  return function;
}

void combine(DataType type, Reduction reduction, std::span<const Term> terms, void* destination,
             std::size_t count, StoreKind store, double divisor) {
  select_combine(type, reduction)(terms, destination, count, store, divisor);
}

Mean mean_of(std::size_t k) {
  const double weight = 1.0 / static_cast<double>(std::bit_ceil(k));
  return {weight, static_cast<double>(k) * weight};
}

double take_divisor(std::span<Term> terms) {
  if (std::has_single_bit(terms.size())) return 1.0;
  const double uniform = 1.0 / static_cast<double>(terms.size());
  const auto differs = [uniform](const Term& term) { return term.weight != uniform; };
  if (std::ranges::any_of(terms, differs)) return 1.0;
  const Mean mean = mean_of(terms.size());
  for (Term& term : terms) term.weight = mean.weight;
  return mean.divisor;
}

}  // namespace weft
