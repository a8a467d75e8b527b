// What the SIMD files give to combine.cc: for each family of types, the function that fits this
// CPU. Private to the module.
#pragma once

#include "engine/kernels/kernels.h"

namespace weft {

// Each is defined for the types of its family and the reductions that check_reduction() allows for
// them, and gives nullptr for anything else.
[[nodiscard]] CombineFunction select_float(DataType type, Reduction reduction);
[[nodiscard]] CombineFunction select_half(DataType type, Reduction reduction);
[[nodiscard]] CombineFunction select_integer(DataType type, Reduction reduction);

}  // namespace weft
