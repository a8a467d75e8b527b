// body: the memory of rings, used again when nobody looks at it any more. Internal to the module.
//
// A ring is looked at by its owner and by the peer that it was made for. When both have closed the
// interfaces that knew it, its body can serve another pair. What leads to the body, a Ring, stays:
// strangers may still walk past it.
#pragma once

#include <memory>

#include "verbs/shm/layout.h"

namespace weft::shm {

// A body that its owner no longer looks at, and who else does.
struct LeftBody {
  std::byte* body;
  std::size_t bytes;
  const Hall* peer_hall;
  std::int32_t peer_process;
  std::shared_ptr<const PeerHeap> peer_heap;  // where the hall lies
};

// A body as a fresh one: releases and stamps are 0. Errors: exhausted.
[[nodiscard]] Result<std::byte*> take_body(const Geometry& geometry);
void leave_body(LeftBody left);

}  // namespace weft::shm
