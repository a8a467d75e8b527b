// FNV-1a with 64 bits: a hash that every build and every rank computes alike from the same bytes.
// It finds damage and spreads names over numbers; it is no protection against malice.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

inline constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325;
inline constexpr std::uint64_t kFnvPrime = 0x100000001b3;

// The hash of `bytes`. To hash several parts as if they were one, give the hash of the parts before
// as `begin`: fnv1a64(b, fnv1a64(a)) equals fnv1a64(a + b).
[[nodiscard]] constexpr std::uint64_t fnv1a64(std::string_view bytes,
                                              std::uint64_t begin = kFnvBasis) {
  std::uint64_t hash = begin;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * kFnvPrime;
  return hash;
}

}  // namespace weft
