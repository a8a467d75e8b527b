// verify_layout: where a rank's blocks lie in the symbolic memory. Internal to the verifier.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "scheduler/plan/plan.h"

namespace weft::verifier {

// Elements first … last-1 of one rank's memory.
struct Extent {
  std::size_t first = 0;
  std::size_t last = 0;
  [[nodiscard]] std::size_t count() const { return last - first; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

[[nodiscard]] inline bool overlap(const Extent& a, const Extent& b) {
  return a.first < b.last && b.first < a.last;
}

// One rank's three buffers in one address space, so that input and output being the same memory is
// nothing special: they have the same addresses. Immutable. Keeps a reference to the plan.
class Layout {
 public:
  // `inputs[r]` is the number of elements of rank r's input.
  Layout(const Planned& program, std::span<const std::size_t> inputs, Shape shape);

  // Where a slice lies. The slice must be within its partition.
  [[nodiscard]] Extent extent(const Slice& slice) const;
  [[nodiscard]] Extent whole(Buffer buffer) const;
  [[nodiscard]] std::size_t elements() const { return elements_; }

 private:
  [[nodiscard]] std::size_t cut(Buffer buffer, std::uint32_t block) const;

  const Plan* plan_;
  Extent buffers_[kBuffers];
  std::vector<std::size_t> given_cuts_;  // of an output whose blocks are given
  std::size_t elements_ = 0;
};

// Elements for each rank's input: enough for every block of every even partition to have one, and
// uneven, so that taking one block for another shows as a wrong size or a wrong value. A gathering
// gets inputs of different sizes.
[[nodiscard]] std::vector<std::size_t> input_elements(std::span<const Planned> programs,
                                                      bool inputs_differ);

}  // namespace weft::verifier
