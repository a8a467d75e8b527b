// Tensor: an array in shared memory. Other ranks of this machine read it in place, so no operation
// has to copy it first.
#pragma once

#include <cstddef>
#include <memory>

#include "verbs/base/base.h"
#include "verbs/memory/memory.h"

namespace examples {

struct Release {
  void operator()(void* memory) const { weft::deallocate(memory); }
};
template <typename T>
using Tensor = std::unique_ptr<T[], Release>;

// `count` zeros.
template <typename T>
weft::Result<Tensor<T>> make_tensor(std::size_t count) {
  WEFT_ASSIGN(void* memory, weft::allocate(count * sizeof(T)));
  return Tensor<T>(static_cast<T*>(memory));
}

}  // namespace examples
