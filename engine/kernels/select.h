// What the SIMD files provide to combine.cc: for each family of types, the function for this CPU.
// Private to the module.
#pragma once

#include "engine/kernels/kernels.h"

namespace weft {

// Each function knows the types of its family, with the reductions that check_reduction() allows
// for them. It returns nullptr for anything else.
[[nodiscard]] CombineFunction select_float(DataType type, Reduction reduction);
[[nodiscard]] CombineFunction select_narrow(DataType type, Reduction reduction);
[[nodiscard]] CombineFunction select_integer(DataType type, Reduction reduction);

}  // namespace weft
