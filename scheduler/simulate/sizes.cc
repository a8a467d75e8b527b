// sizes: elements of four bytes, a cache line a grain.
#include "scheduler/simulate/sizes.h"

#include <algorithm>

namespace weft::simulator {
namespace {

constexpr std::size_t kElement = 4;
constexpr std::size_t kGrain = 64 / kElement;

// What the largest of all slices of so many even blocks has.
std::size_t most_elements(std::size_t elements, std::size_t blocks, std::size_t of) {
  const std::size_t grains = (elements + kGrain - 1) / kGrain;
  return std::min(elements, (grains * blocks + of - 1) / of * kGrain);
}

}  // namespace

std::uint64_t Sizes::bytes_of(const Slice& slice) const {
  if (slice.first == slice.last) return 0;
  const Partition& partition = plan_.partition_of(slice.buffer);
  const std::size_t blocks = slice.last - slice.first;
  if (partition.kind == Partition::Kind::given) return blocks * bytes_.block;
  const Buffer like = slice.buffer == Buffer::scratch ? plan_.scratch_of : slice.buffer;
  const std::size_t bytes = like == Buffer::input ? bytes_.input : bytes_.output;
  if (blocks == partition.blocks) return bytes;
  const std::size_t elements = bytes / kElement;
  if (equalized_) return most_elements(elements, blocks, partition.blocks) * kElement;
  const Range first = block_range(elements, kGrain, partition.blocks, slice.first);
  const Range last = block_range(elements, kGrain, partition.blocks, slice.last - 1);
  return (last.offset + last.count - first.offset) * kElement;
}

}  // namespace weft::simulator
