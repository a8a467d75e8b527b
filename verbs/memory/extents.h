// Extents: which parts of an address range are free. First fit with coalescing; offsets only, no
// memory is touched. Parts that are too small for a size are not looked at again until one grows. Not thread
// safe: the heap's lock covers it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

namespace weft {

class Extents {
 public:
  // Adds [offset, offset+bytes) to the free parts, merged with its neighbors.
  void give(std::uint64_t offset, std::uint64_t bytes);
  // Takes `bytes` at a multiple of `alignment` (a power of two); nothing when no part is large
  // enough.
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t bytes, std::uint64_t alignment);
  // Whether the byte at `offset` is free.
  [[nodiscard]] bool has(std::uint64_t offset) const;

 private:
  // A part of so many bytes is free at the offset.
  void note(std::uint64_t offset, std::uint64_t bytes);

  std::map<std::uint64_t, std::uint64_t> free_;  // offset -> bytes, disjoint, never adjacent
  // By the logarithm of a size: all parts that begin before this offset are smaller.
  std::array<std::uint64_t, 64> first_{};
};

}  // namespace weft
