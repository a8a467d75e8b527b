// Where the kernel puts memory that the calling thread touches first.
#pragma once

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <iterator>

namespace weft {

// The node that the thread prefers; -1: none.
inline int preferred_node() {
  constexpr std::size_t kWordBits = 8 * sizeof(unsigned long);
  int mode = 0;
  unsigned long mask[16] = {};
  if (syscall(SYS_get_mempolicy, &mode, mask, std::size(mask) * kWordBits, nullptr, 0) != 0)
    return -1;
  const auto* const word = std::ranges::find_if(mask, [](unsigned long each) { return each != 0; });
  if (mode != MPOL_PREFERRED || word == std::end(mask)) return -1;
  return static_cast<int>(static_cast<std::size_t>(word - mask) * kWordBits) +
         std::countr_zero(*word);
}

}  // namespace weft
