// verify_sizes: how many elements each rank's input and output have in a symbolic run, and where
// `given` partitions are cut. Internal to the verifier.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "scheduler/plan/plan.h"
#include "scheduler/verify/verify.h"

namespace weft::verifier {

// The sizes of one rank. Block b of a `given` partition has elements cuts[b] … cuts[b+1]-1.
struct Sizes {
  std::size_t input = 0;
  std::size_t output = 0;
  std::vector<std::size_t> input_cuts;
  std::vector<std::size_t> output_cuts;
  bool may_be_in_place = true;
  // In place: the offset of the smaller of input and output in the larger one.
  std::size_t own_offset = 0;

  [[nodiscard]] std::size_t of(Buffer buffer) const {
    return buffer == Buffer::output ? output : input;
  }
  [[nodiscard]] const std::vector<std::size_t>& cuts(Buffer buffer) const {
    return buffer == Buffer::output ? output_cuts : input_cuts;
  }
};

// Sizes by rank. An even partition gets at least one element for every block. All sizes are uneven,
// and some blocks are empty, so that a confusion of two blocks shows as a wrong size or a wrong
// value.
[[nodiscard]] std::vector<Sizes> choose_sizes(std::span<const Planned> programs,
                                              const Expectation& expectation);

// Checks that a `given` partition has as many blocks as the sizes have cuts.
[[nodiscard]] Status check_given(const Planned& program, const Sizes& sizes);

}  // namespace weft::verifier
