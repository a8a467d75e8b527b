// body: the memory of rings, reused once neither side uses it any more. Internal to the module.
//
// A ring is used by its owner and by the peer for which it was made. When both have closed the
// interfaces that used it, its body can serve another pair of ranks. The Ring that leads to the
// body is kept longer (control_block.h), because strangers may still follow its `next`.
#pragma once

#include <sys/types.h>

#include "verbs/shm/layout.h"

namespace weft::shm {

// A new or a reused body. Its counts of releases and its stamps are 0. Errors: exhausted.
[[nodiscard]] Result<std::byte*> take_body(const Geometry& geometry);
// The owner does not use the body any more. The body can be reused once `left` is set in `ring`.
// `reader`: the process of the peer for which the ring was made; -1: not known. Once it has ended, it looks at nothing.
void leave_body(std::byte* body, std::size_t bytes, const Ring* ring, pid_t reader);
// `left` is set in this ring, which is given back.
void forget_ring(const Ring* ring);

}  // namespace weft::shm
