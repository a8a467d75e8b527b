// image: the kernels as nvcc has compiled them. Internal to the module.
#pragma once

#include <cstddef>
#include <span>

namespace weft::gpu {

// Empty: this build has none.
[[nodiscard]] std::span<const std::byte> image();

}  // namespace weft::gpu
