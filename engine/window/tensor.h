// tensor: the shape of a window's tensor, memory of that shape that is made when it is first used,
// and sums. Internal to the module.
#pragma once

#include <weft/memory.h>
#include <weft/types.h>

#include <span>

#include "engine/kernels/kernels.h"

namespace weft::window {

struct TensorShape {
  std::size_t count = 0;
  DataType type = DataType::f32;
  [[nodiscard]] std::size_t bytes() const { return count * size_of(type); }
};

// Memory for one tensor.
class Tensor {
 public:
  [[nodiscard]] bool exists() const { return memory_.data() != nullptr; }
  [[nodiscard]] Status make(const TensorShape& shape) {
    if (exists()) return {};
    WEFT_ASSIGN(memory_, Memory::allocate(std::max<std::size_t>(shape.bytes(), 1)));
    return {};
  }
  [[nodiscard]] std::byte* data() const { return memory_.as<std::byte>(); }

 private:
  Memory memory_;
};

// destination := the weighted sum of the terms, divided; zeros if there are none.
void add_up(const TensorShape& shape, std::span<const Term> terms, void* destination,
            double divisor = 1.0);

}  // namespace weft::window
