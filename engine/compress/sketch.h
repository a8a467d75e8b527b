// sketch: the sizes of a sketch, and counting. Internal to the module.
#pragma once

#include <weft/types.h>

#include <cstddef>

namespace weft {

inline constexpr std::size_t kSketchCodes = 256;
inline constexpr std::size_t kSketchTable = kSketchCodes * sizeof(float);

// For encoded_counts().
void count_encoded(Compression form, std::size_t bytes);

}  // namespace weft
