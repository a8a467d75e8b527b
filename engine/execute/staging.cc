// staging: see the header.
#include "engine/execute/staging.h"

#include <algorithm>

#include "verbs/memory/memory.h"

namespace weft {
namespace {

// Blocks that are allocated from the heap at once: as many as a message whose readers go in step
// may hold (kStagedInStep in send.cc).
constexpr std::size_t kGrowth = 4;

}  // namespace

StagingPool::~StagingPool() {
  for (std::byte* memory : memory_) deallocate(memory);
}

std::byte* StagingPool::take() {
  if (free_.empty()) grow();
  if (free_.empty()) return nullptr;
  std::byte* const block = free_.back();
  free_.pop_back();
  return block;
}

void StagingPool::grow() {
  const std::size_t more = std::min(kGrowth, options_.most_blocks - blocks_);
  if (more == 0) return;
  const Result<void*> memory = allocate(more * options_.block_bytes);
  if (!memory.ok()) return;
  blocks_ += more;
  memory_.push_back(static_cast<std::byte*>(*memory));
  for (std::size_t block = more; block-- > 0;)
    free_.push_back(memory_.back() + block * options_.block_bytes);
}

}  // namespace weft
