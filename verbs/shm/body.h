// body: the memory of rings, used again when nobody looks at it any more. Internal to the module.
//
// A ring is looked at by its owner and by the peer that it was made for. When both have closed the
// interfaces that knew it, its body can serve another pair. What leads to the body, a Ring, stays:
// strangers may still walk past it, and the peer says there that it has left.
#pragma once

#include "verbs/shm/layout.h"

namespace weft::shm {

// A body as a fresh one: releases and stamps are 0. Errors: exhausted.
[[nodiscard]] Result<std::byte*> take_body(const Geometry& geometry);
// Its owner looks at it no more, and the peer of `ring` until it says so; nullptr: it has left.
void leave_body(std::byte* body, std::size_t bytes, const Ring* ring);

}  // namespace weft::shm
