// sizes: bytes of a plan's slices, cut as the executor cuts them. Internal to the module.
#pragma once

#include <cstdint>

#include "scheduler/simulate/simulate.h"

namespace weft::simulator {

class Sizes {
 public:
  // `equalized`: equal numbers of blocks have equal sizes, those of the largest. So what is alike
  // happens at one instant, although a block may be a cache line longer at one rank than at another.
  Sizes(const Plan& plan, const OperandBytes& bytes, bool equalized)
      : plan_(plan), bytes_(bytes), equalized_(equalized) {}
  [[nodiscard]] std::uint64_t bytes_of(const Slice& slice) const;

 private:
  const Plan& plan_;
  const OperandBytes& bytes_;
  bool equalized_;
};

}  // namespace weft::simulator
