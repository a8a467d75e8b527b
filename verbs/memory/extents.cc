// First fit over an ordered map: allocation is control path, and frees coalesce. What is left of arenas by blocks of
// one size is too small for another, and there may be thousands; `first_` passes over it.
#include "verbs/memory/extents.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "verbs/base/base.h"

namespace weft {

void Extents::give(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return;
  auto after = free_.lower_bound(offset);
  invariant(after == free_.end() || offset + bytes <= after->first, "a block was freed twice");
  if (after != free_.end() && offset + bytes == after->first) {
    bytes += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    invariant(before->first + before->second <= offset, "a block was freed twice");
    if (before->first + before->second == offset) {
      before->second += bytes;
      note(before->first, before->second);
      return;
    }
  }
  free_.emplace_hint(after, offset, bytes);
  note(offset, bytes);
}

void Extents::note(std::uint64_t offset, std::uint64_t bytes) {
  for (std::size_t size = 0; size < static_cast<std::size_t>(std::bit_width(bytes)); ++size)
    first_[size] = std::min(first_[size], offset);
}

std::optional<std::uint64_t> Extents::take(std::uint64_t bytes, std::uint64_t alignment) {
  const auto size = static_cast<std::size_t>(bytes == 0 ? 0 : std::bit_width(bytes) - 1);
  auto it = free_.lower_bound(first_[size]);
  while (it != free_.end() && it->second >> size == 0) ++it;
  first_[size] = it == free_.end() ? ~std::uint64_t{0} : it->first;
  for (; it != free_.end(); ++it) {
    const std::uint64_t start = it->first;
    const std::uint64_t end = start + it->second;
    const std::uint64_t aligned = (start + alignment - 1) & ~(alignment - 1);
    if (aligned < start || aligned > end || end - aligned < bytes) continue;
    free_.erase(it);
    give(start, aligned - start);
    give(aligned + bytes, end - aligned - bytes);
    return aligned;
  }
  return std::nullopt;
}

bool Extents::has(std::uint64_t offset) const {
  const auto after = free_.upper_bound(offset);
  if (after == free_.begin()) return false;
  const auto& [start, bytes] = *std::prev(after);
  return offset - start < bytes;
}

}  // namespace weft
