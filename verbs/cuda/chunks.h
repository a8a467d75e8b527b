// chunks: heaps of peers are registered with the driver chunk by chunk. Internal to the module.
#pragma once

#include <algorithm>
#include <cstdint>

#include "verbs/base/base.h"
#include "verbs/memory/memory.h"

namespace weft::cuda {

inline constexpr std::uintptr_t kChunkBytes = std::uintptr_t{2} << 20;

// Calls copy(offset, bytes) for parts of host memory that each lie in one registration. A copy over
// the border of two registrations is wrong without an error (seen on driver 580: zeros arrive).
template <typename Copy>
Status copy_in_chunks(const void* host, std::size_t bytes, const Copy& copy) {
  if (heap_offset(host, bytes) != kNotInHeap) return copy(std::size_t{0}, bytes);
  const auto begin = reinterpret_cast<std::uintptr_t>(host);
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t left = kChunkBytes - (begin + at) % kChunkBytes;
    const std::size_t part = std::min(left, bytes - at);
    WEFT_RETURN_IF_ERROR(copy(at, part));
    at += part;
  }
  return {};
}

}  // namespace weft::cuda
