// How a buffer is cut in even blocks: a pure function, so that two ranks agree without talking.
#include <algorithm>

#include "scheduler/plan/plan.h"

namespace weft {
namespace {

// floor(block * grains / blocks) without the product, which could overflow.
std::size_t cut(std::size_t grains, std::size_t blocks, std::size_t block) {
  return grains / blocks * block + grains % blocks * block / blocks;
}

}  // namespace

// Cutting whole grains keeps two ranks from writing one cache line. The last block is the one with
// the partial grain, and it is never among the smaller ones, so blocks still differ by one grain at
// most.
Range block_range(std::size_t elements, std::size_t grain, std::uint32_t blocks,
                  std::uint32_t block) {
  invariant(grain > 0, "a grain has elements");
  invariant(block < blocks, "a block lies in its partition");
  const std::size_t whole_grains = elements / grain;
  const std::size_t grains = whole_grains + (elements % grain != 0 ? 1 : 0);
  const auto offset = [&](std::size_t first_grain) {
    return first_grain > whole_grains ? elements : first_grain * grain;
  };
  const std::size_t first = offset(cut(grains, blocks, block));
  const std::size_t last = offset(cut(grains, blocks, block + std::size_t{1}));
  return {first, last - first};
}

}  // namespace weft
