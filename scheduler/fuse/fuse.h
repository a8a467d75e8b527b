// fuse: which small tensors travel as one message.
//
//   items, in the order in which they may run:   a(4 KiB) b(4 KiB) C(64 MiB) d(2 KiB) e(8 KiB, another key)
//   batches, at most 16 MiB:                     [a b d] [C] [e]
//
// An item joins the batch of its key that was begun last, if it fits. Else it begins a batch. So an
// item moves forward only to items that could run already, and never behind one of its own key. An
// item that is larger than a second limit runs alone, from where it is: copying it would cost more
// than a message of its own.
//
// Pure functions of their arguments: ranks that give the same items get the same batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft {

struct FuseItem {
  // Items of equal keys may travel together: the caller makes one of operation, type, operator,
  // root and peers.
  std::uint64_t key = 0;
  std::size_t bytes = 0;
  bool is_alone = false;  // is never fused
};

// Where each item begins in a batch: a multiple of this, so that vector instructions and cache lines
// do not straddle two tensors.
inline constexpr std::size_t kFuseAlignment = 64;
[[nodiscard]] constexpr std::size_t fused_bytes(std::size_t bytes) {
  return (bytes + kFuseAlignment - 1) / kFuseAlignment * kFuseAlignment;
}

struct FusePart {
  std::size_t item = 0;    // its index
  std::size_t offset = 0;  // in the batch
};
struct FuseBatch {
  std::vector<FusePart> parts;  // one: it runs from where it is
  std::size_t bytes = 0;        // with the gaps
};

struct FuseLimits {
  std::size_t batch_bytes = 0;  // of a batch of several items; 0: nothing is fused
  std::size_t item_bytes = 0;   // of an item that is fused
};

[[nodiscard]] std::vector<FuseBatch> plan_batches(std::span<const FuseItem> items,
                                                  const FuseLimits& limits);

}  // namespace weft
