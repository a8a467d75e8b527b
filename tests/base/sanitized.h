// Which sanitizer this build has, and what a test does less of under one. A sanitizer keeps its own records of memory in address space that it
// reserves, so a program under one does not run below a limit of address space.
#pragma once

#include <cstdint>

#include "verbs/sanitizers/sanitizers.h"

namespace weft {

#ifdef WEFT_THREAD_SANITIZER
inline constexpr bool kHasThreadSanitizer = true;
#else
inline constexpr bool kHasThreadSanitizer = false;
#endif
#ifdef WEFT_ADDRESS_SANITIZER
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = kHasThreadSanitizer;
#endif

// How many of `all` courses that differ by their seed alone a test runs. Under a sanitizer, which makes
// them many times as slow, an eighth of them runs all the code that the others run.
constexpr std::uint64_t seeds(std::uint64_t all) {
  return kIsSanitized ? (all + 7) / 8 : all;
}

// The size of a search through all states: the smaller one under a sanitizer.
template <typename Size>
constexpr Size searched(Size size, Size sanitized) {
  return kIsSanitized ? sanitized : size;
}

}  // namespace weft
