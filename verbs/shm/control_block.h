// control block: the memory of control blocks and of their rings, reused once no rank uses them any
// more. Internal to the module.
//
// Other ranks may look at a control block, and at the rings that it leads to, after its owner has
// closed: a rank that comes late still takes what was sent to it. A control block that was left is
// therefore reused only when every rank for which there is a ring has left that ring, and no rank
// is in the control block. Who comes later by an old address finds another generation, and is told
// that the rank has left.
#pragma once

#include <vector>

#include "verbs/shm/layout.h"

namespace weft::shm {

// The name of a control block in addresses and rings: its offset in the heap, and its generation
// above that.
inline constexpr unsigned kOffsetBits = 48;
inline constexpr std::uint64_t kGenerations = std::uint64_t{1} << (64 - kOffsetBits);
[[nodiscard]] constexpr std::uint64_t offset_of(std::uint64_t block) {
  return block & ((std::uint64_t{1} << kOffsetBits) - 1);
}
[[nodiscard]] constexpr std::uint64_t generation_of(std::uint64_t word) {
  return word >> kOffsetBits;
}

// A new or a reused control block: what changes while it is used is 0, and its bell -1. Errors:
// exhausted.
[[nodiscard]] Result<ControlBlock*> take_control_block();
// Its name.
[[nodiscard]] std::uint64_t name_of(const ControlBlock& block);
// The owner, which has closed it, does not use the control block and its rings any more.
void leave_control_block(ControlBlock* block, std::vector<Ring*> rings);

// A peer begins to use a control block. Returns whether it still has that name.
[[nodiscard]] bool enter(ControlBlock& block, std::uint64_t name);
void leave(ControlBlock& block);

}  // namespace weft::shm
