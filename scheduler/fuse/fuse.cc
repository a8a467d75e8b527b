// fuse: see the header.
#include "scheduler/fuse/fuse.h"

#include <unordered_map>

namespace weft {

std::vector<FuseBatch> plan_batches(std::span<const FuseItem> items, const FuseLimits& limits) {
  std::vector<FuseBatch> batches;
  std::unordered_map<std::uint64_t, std::size_t> open;  // key -> the batch that was begun last
  auto last = open.end();                               // the entry of the last item
  for (std::size_t i = 0; i < items.size(); ++i) {
    const FuseItem& item = items[i];
    const std::size_t bytes = fused_bytes(item.bytes);
    if (item.is_alone || item.bytes > limits.item_bytes || bytes > limits.batch_bytes) {
      batches.push_back({{{i, 0}}, item.bytes});
      continue;
    }
    const bool is_as_last = last != open.end() && last->first == item.key;
    const auto found = is_as_last ? last : open.find(item.key);
    last = found;
    if (found != open.end() && batches[found->second].bytes + bytes <= limits.batch_bytes) {
      FuseBatch& batch = batches[found->second];
      batch.parts.push_back({i, batch.bytes});
      batch.bytes += bytes;
      continue;
    }
    last = open.insert_or_assign(item.key, batches.size()).first;
    batches.push_back({{{i, 0}}, bytes});
  }
  return batches;
}

}  // namespace weft
