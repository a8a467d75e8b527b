// The data of a measurement: what every rank's input holds in every lap is known to all, so that
// each result can be compared with a reference in double precision without sending anything.
//
// Values are multiples of 1/64 from -2 to just below 2 (integers: -128…127), exact in every type.
#pragma once

#include <cstdint>

#include "tools/limits/limits.h"

namespace weft {

// The input of `rank` in `lap`.
void fill(DataType type, void* to, std::size_t count, Rank rank, std::uint64_t lap);

// Is `got` what the recipe makes of everyone's inputs of `lap`? `count`: elements of one block of
// an input. mismatch names rank, element, got and expected. Integers are summed, whatever the
// weights.
Status compare(DataType type, const void* got, std::size_t count, const Recipe& recipe, Rank rank,
               std::uint64_t lap);

}  // namespace weft
