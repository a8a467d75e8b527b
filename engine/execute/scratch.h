// scratch: the memory in which plans keep what is between input and output, shared by the
// executions of a lane.
//
// Memory that neighbors can read costs a fraction of a millisecond per MiB the first time that it is
// touched. Operations of one shape come again and again, each on the next channel, so blocks go
// from one execution to another instead of staying with the channel.
//
// Belongs to the lane's owner, as the executions do, and outlives them. Holds as many blocks as
// operations with scratch ran at once, at most, and the lane's staging area.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/execute/staging.h"
#include "verbs/base/base.h"

namespace weft {

class ScratchPool {
 public:
  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };

  explicit ScratchPool(const StagingOptions& staging = {}) : staging_(staging) {}
  ~ScratchPool();
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  // The smallest free block that is large enough; else a new one, in place of the largest free one.
  [[nodiscard]] Result<Block> take(std::size_t bytes);
  // Nobody reads it any more.
  void give(Block block);

  [[nodiscard]] StagingPool& staging() { return staging_; }

  // Of the staging area, too, and of what is in use.
  [[nodiscard]] std::size_t bytes() const { return bytes_ + staging_.bytes(); }
  [[nodiscard]] std::uint64_t allocations() const { return allocations_ + staging_.allocations(); }

 private:
  std::vector<Block> free_;  // by size
  std::size_t bytes_ = 0;
  std::uint64_t allocations_ = 0;
  StagingPool staging_;
};

}  // namespace weft
