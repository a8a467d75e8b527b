// staging: the part of the shared heap through which private memory reaches the ranks of this
// machine. The executions of a lane share it.
//
// A message in private memory is cut into blocks. Each block is copied once into the staging area,
// read there in place by every receiver, and given back when the last receiver has released it. The
// area is bounded, so a block may be refused; the execution then copies a smaller piece into the
// receiver's slot instead. The block that was given back last is handed out first, because it is
// still in the core's cache.
//
// The pool belongs to the holder of the lane's token, as the executions do, and outlives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

// Four blocks of 64 KiB fit a core's second-level cache together with the data that is combined
// from them. 64 blocks are four for each of two messages on each of eight channels.
struct StagingOptions {
  std::size_t block_bytes = std::size_t{64} << 10;  // a multiple of 64
  std::size_t most_blocks = 64;
};

class StagingPool {
 public:
  explicit StagingPool(const StagingOptions& options = {}) : options_(options) {}
  ~StagingPool();
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // A block; nullptr: all are in use, or the heap has no memory for more.
  [[nodiscard]] std::byte* take();
  // Takes back a block that nobody reads any more.
  void give(std::byte* block) { free_.push_back(block); }

  [[nodiscard]] std::size_t block_bytes() const { return options_.block_bytes; }
  [[nodiscard]] std::size_t bytes() const { return blocks_ * options_.block_bytes; }
  [[nodiscard]] std::uint64_t allocations() const { return memory_.size(); }

 private:
  void grow();

  StagingOptions options_;
  std::vector<std::byte*> free_;
  std::vector<std::byte*> memory_;  // allocations of the heap, each of several blocks
  std::size_t blocks_ = 0;
};

}  // namespace weft
