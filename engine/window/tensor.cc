// tensor: sums.
#include "engine/window/tensor.h"

#include <cstring>

namespace weft::window {

void add_up(const TensorShape& shape, std::span<const Term> terms, void* destination,
            double divisor) {
  if (shape.count == 0) return;
  if (terms.empty()) {
    std::memset(destination, 0, shape.bytes());
  } else if (terms.size() == 1 && terms.front().weight == 1.0) {
    if (terms.front().data != destination)
      std::memcpy(destination, terms.front().data, shape.bytes());
  } else {
    combine(shape.type, Reduction::weighted_sum, terms, destination, shape.count, StoreKind::cached,
            divisor);
  }
}

}  // namespace weft::window
