// verify_layout: where a rank's blocks lie in the symbolic memory. Internal to the verifier.
#pragma once

#include <cstddef>

#include "scheduler/plan/plan.h"
#include "scheduler/verify/sizes.h"

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

// One rank's three buffers in one address space. In place, input and output simply have the same
// addresses. Immutable. Keeps references to the plan and the sizes.
class Layout {
 public:
  Layout(const Planned& program, const Sizes& sizes, Shape shape);

  // Where a slice lies. The slice must be within its partition.
  [[nodiscard]] Extent extent(const Slice& slice) const;
  [[nodiscard]] Extent whole(Buffer buffer) const;
  [[nodiscard]] std::size_t elements() const { return elements_; }

 private:
  [[nodiscard]] std::size_t cut(Buffer buffer, std::uint32_t block) const;

  const Plan* plan_;
  const Sizes* sizes_;
  Extent buffers_[kBuffers];
  std::size_t elements_ = 0;
};

}  // namespace weft::verifier
