// sketch: the sizes of a sketch. Internal to the module.
#pragma once

#include <cstddef>

namespace weft {

inline constexpr std::size_t kSketchCodes = 256;
inline constexpr std::size_t kSketchTable = kSketchCodes * sizeof(float);

}  // namespace weft
