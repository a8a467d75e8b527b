// marks: words in our heap that say which regions we expose. Internal to the module.
//
// Peers reach a region without our help, so they look at its mark before each access. A mark holds
// the number of an exposure while the region is exposed. This number never returns, so the mark
// can serve another region later, and a peer that still knows the first finds a number that is not
// its own. Marks are never freed, because peers may look at them as long as the process lives;
// there are as many as regions were ever exposed at one time.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>

#include "verbs/base/base.h"

namespace weft::shm {

using Mark = std::atomic<std::uint64_t>;

// A region of ours that is exposed.
struct Exposed {
  Mark* mark = nullptr;
  std::uint64_t exposure = 0;  // what stands there
};

// Takes a mark and sets it. Errors: exhausted.
[[nodiscard]] Result<Exposed> set_mark();
void clear_mark(const Exposed& exposed);

}  // namespace weft::shm
