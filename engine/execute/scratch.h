// scratch: the memory that plans need between input and output. The executions of a lane share it.
//
// Memory that neighbors can read costs a fraction of a millisecond per MiB when it is first
// touched. Operations of one shape come again and again, each on the next channel. Therefore blocks
// go from one execution to another instead of staying with a channel.
//
// The pool belongs to the holder of the lane's token, as the executions do, and outlives them. It
// holds the lane's staging area, and at most as many blocks as operations with scratch have run at
// once.
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

  // The smallest free block that is large enough. If there is none, a new block replaces the
  // largest free one.
  [[nodiscard]] Result<Block> take(std::size_t bytes);
  // Takes back a block that nobody reads any more.
  void give(Block block);

  [[nodiscard]] StagingPool& staging() { return staging_; }

  // Both count the staging area too; bytes() also counts the blocks in use.
  [[nodiscard]] std::size_t bytes() const { return bytes_ + staging_.bytes(); }
  [[nodiscard]] std::uint64_t allocations() const { return allocations_ + staging_.allocations(); }

 private:
  std::vector<Block> free_;  // by size
  std::size_t bytes_ = 0;
  std::uint64_t allocations_ = 0;
  StagingPool staging_;
};

}  // namespace weft
