// hall: the memory of halls and of their rings, reused once no rank uses them any more. Internal to
// the module.
//
// Other ranks may look at a hall, and at the rings that it leads to, after its owner has closed: a
// rank that comes late still takes what was sent to it. A hall that was left is therefore reused only
// when every rank for which there is a ring has left that ring, and no rank is in the hall. Who comes
// later by an old address finds another generation, and is told that the rank has left.
#pragma once

#include <vector>

#include "verbs/shm/layout.h"

namespace weft::shm {

// The name of a hall in addresses and rings: its offset in the heap, and its generation above that.
inline constexpr unsigned kOffsetBits = 48;
inline constexpr std::uint64_t kGenerations = std::uint64_t{1} << (64 - kOffsetBits);
[[nodiscard]] constexpr std::uint64_t offset_of(std::uint64_t hall) {
  return hall & ((std::uint64_t{1} << kOffsetBits) - 1);
}
[[nodiscard]] constexpr std::uint64_t generation_of(std::uint64_t word) {
  return word >> kOffsetBits;
}

// A new or a reused hall: what changes while it is used is 0, and its bell -1. Errors: exhausted.
[[nodiscard]] Result<Hall*> take_hall();
// Its name.
[[nodiscard]] std::uint64_t name_of(const Hall& hall);
// The owner, which has closed it, does not use the hall and its rings any more.
void leave_hall(Hall* hall, std::vector<Ring*> rings);

// A peer begins to use a hall. Returns whether it still has that name.
[[nodiscard]] bool enter(Hall& hall, std::uint64_t name);
void leave(Hall& hall);

}  // namespace weft::shm
