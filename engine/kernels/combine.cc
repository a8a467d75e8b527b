// The public entry: finds the family of a type and asks it for its function.
#include "engine/kernels/kernels.h"
#include "engine/kernels/select.h"

namespace weft {

CombineFunction select_combine(DataType type, Reduction reduction) {
  CombineFunction function = nullptr;
  if (!is_floating(type)) {
    function = select_integer(type, reduction);
  } else if (size_of(type) == 2) {
    function = select_half(type, reduction);
  } else {
    function = select_float(type, reduction);
  }
  invariant(function != nullptr, "only what check_reduction() allows is combined");
  return function;
}

void combine(DataType type, Reduction reduction, std::span<const Term> terms, void* destination,
             std::size_t count, StoreKind store) {
  select_combine(type, reduction)(terms, destination, count, store);
}

}  // namespace weft
