// scratch: see the header.
#include "engine/execute/scratch.h"

#include <algorithm>

#include "verbs/memory/memory.h"

namespace weft {

ScratchPool::~ScratchPool() {
  for (const Block& block : free_) deallocate(block.data);
}

Result<ScratchPool::Block> ScratchPool::take(std::size_t bytes) {
  const auto fits = std::ranges::lower_bound(free_, bytes, {}, &Block::bytes);
  if (fits != free_.end()) {
    const Block block = *fits;
    free_.erase(fits);
    return block;
  }
  WEFT_ASSIGN(void* const memory, allocate(bytes));
  if (!free_.empty()) {
    bytes_ -= free_.back().bytes;
    deallocate(free_.back().data);
    free_.pop_back();
  }
  bytes_ += bytes;
  ++allocations_;
  return Block{static_cast<std::byte*>(memory), bytes};
}

void ScratchPool::give(Block block) {
  if (block.data == nullptr) return;
  free_.insert(std::ranges::lower_bound(free_, block.bytes, {}, &Block::bytes), block);
}

}  // namespace weft
