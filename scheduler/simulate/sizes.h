// sizes: the sizes of a plan's slices in bytes, cut as the executor cuts them. Internal to the
// module.
#pragma once

#include <cstdint>

#include "scheduler/simulate/simulate.h"

namespace weft::simulator {

class Sizes {
 public:
  // If `equalized`, all blocks have the size of the largest block. Ranks that are alike then act at
  // the same instant, although in truth a block may be one cache line longer at one rank than at
  // another.
  Sizes(const Plan& plan, const OperandBytes& bytes, bool equalized)
      : plan_(plan), bytes_(bytes), equalized_(equalized) {}
  [[nodiscard]] std::uint64_t bytes_of(const Slice& slice) const;

 private:
  const Plan& plan_;
  const OperandBytes& bytes_;
  bool equalized_;
};

}  // namespace weft::simulator
