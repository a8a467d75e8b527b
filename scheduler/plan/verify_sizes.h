// verify_sizes: how many elements each rank's input and output have in a symbolic run, and where
// they are cut when the caller says so. Internal to the verifier.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "scheduler/plan/plan.h"
#include "scheduler/plan/verify.h"

namespace weft::verifier {

// One rank's. Cuts: block b of a given partition is elements cuts[b] … cuts[b+1]-1.
struct Sizes {
  std::size_t input = 0;
  std::size_t output = 0;
  std::vector<std::size_t> input_cuts;
  std::vector<std::size_t> output_cuts;
  bool may_be_in_place = true;
  std::size_t own_offset = 0;  // in place: of the smaller of input and output in the larger

  [[nodiscard]] std::size_t of(Buffer buffer) const {
    return buffer == Buffer::output ? output : input;
  }
  [[nodiscard]] const std::vector<std::size_t>& cuts(Buffer buffer) const {
    return buffer == Buffer::output ? output_cuts : input_cuts;
  }
};

// By rank. Even partitions get enough elements for every block to have one, and everything is
// uneven, empty blocks among it, so that taking one block for another shows as a wrong size or a
// wrong value.
[[nodiscard]] std::vector<Sizes> choose_sizes(std::span<const Planned> programs,
                                              const Expectation& expectation);

// A given partition must have as many blocks as were given.
[[nodiscard]] Status check_given(const Planned& program, const Sizes& sizes);

}  // namespace weft::verifier
