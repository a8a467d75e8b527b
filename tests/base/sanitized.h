// Which sanitizer this build has, and what a test does less of under one. A sanitizer keeps its own records of memory in address space that it
// reserves, so a program under one does not run below a limit of address space.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

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

// How many courses that differ by their seed alone a test runs: `all`, or as many as --gtest_random_seed says, if that is more.
// Under a sanitizer, which makes them many times as slow, an eighth of them runs all the code that the others run.
inline std::uint64_t seeds(std::uint64_t all) {
  all = std::max(all, static_cast<std::uint64_t>(GTEST_FLAG_GET(random_seed)));
  return kIsSanitized ? (all + 7) / 8 : all;
}

// Of many cases of one kind: all of them; under a sanitizer the first of every three.
template <typename Cases>
std::vector<typename Cases::value_type> some_of(const Cases& cases) {
  std::vector<typename Cases::value_type> some;
  for (std::size_t i = 0; i < cases.size(); i += kIsSanitized ? 3 : 1)
    some.push_back(*(cases.begin() + static_cast<std::ptrdiff_t>(i)));
  return some;
}

// The size of a search through all states: the smaller one under a sanitizer.
template <typename Size>
constexpr Size searched(Size size, Size sanitized) {
  return kIsSanitized ? sanitized : size;
}

}  // namespace weft
